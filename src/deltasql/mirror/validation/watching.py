"""The worker's check of its mirrors: a sample of each, and what it does about the findings.

A commit file that is gone or differs counts as not mirrored: `mirror status` shows it, and the next
publish run writes it again from SQL. If somebody else wrote something there, the run refuses to
overwrite it and says so in the version's status. A checkpoint that is gone, and that readers look
for, is due again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from deltasql.errors import DeltaSqlError
from deltasql.log.retention import OFF
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.released import is_released
from deltasql.mirror.validation.sampling import DriftSample, sample
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore

logger = logging.getLogger("deltasql.mirror")


class DriftWatch:
    """Checks a sample of every table's mirror."""

    def __init__(
        self, engine: MirrorEngine, log: LogStore, objects: Callable[[str], ObjectStore]
    ) -> None:
        self._engine = engine
        self._log = log
        self._objects = objects

    def look(self, is_stopped: Callable[[], bool]) -> set[str]:
        """The names of the tables that drifted; their lost commit files will be mirrored again."""
        drifted = set()
        for target in self._targets():
            if is_stopped():
                break
            try:
                found = sample(self._log, self._objects(target.location), target)
                self._forget(target, found)
            except DeltaSqlError as error:
                # Lag already reports an object store that is unreachable.
                logger.warning("%s: the mirror could not be sampled: %s", target.name, error)
                continue
            if found.has_drifted:
                drifted.add(target.name)
                facts = {"table": target.name, "table_id": target.table_id, "error": found.told}
                logger.error("%s: the mirror drifted: %s", target.name, found.told, extra=facts)
        return drifted

    def _targets(self) -> Iterator[Target]:
        for record in self._log.tables():
            target = Target(record.table_id, record.name, record.location)
            if record.mirror_paused or is_released(record.read_only_reason):
                continue
            if record.read_only_reason is None and self._engine.mode_of(target) != OFF:
                yield target

    def _forget(self, target: Target, found: DriftSample) -> None:
        for version in (*found.missing_versions, *found.digest_mismatches):
            self._log.forget_mirrored(target.table_id, first=version, last=version)
        if found.lost_checkpoint is not None:
            self._log.forget_checkpoint(target.table_id, found.lost_checkpoint)
