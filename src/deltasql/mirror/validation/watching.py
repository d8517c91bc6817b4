"""The worker's own look at its mirrors: a sample of each, and what becomes of what it finds.

A commit file that is gone, or is another, is taken for not mirrored: `mirror status` shows it, the
next publish run writes it again from SQL, or refuses to overwrite what somebody else has written
there and says so in the version's status.
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
    """Looks at the newest commit files of every table."""

    def __init__(
        self, engine: MirrorEngine, log: LogStore, objects: Callable[[str], ObjectStore]
    ) -> None:
        self._engine = engine
        self._log = log
        self._objects = objects

    def look(self, is_stopped: Callable[[], bool]) -> set[str]:
        """The tables that drifted, by name; their lost commit files are to be mirrored again."""
        drifted = set()
        for target in self._targets():
            if is_stopped():
                break
            try:
                found = sample(self._log, self._objects(target.location), target)
                self._forget(target, found)
            except DeltaSqlError as error:
                # An object store that is away is the lag's to tell.
                logger.warning("%s: the mirror could not be sampled: %s", target.name, error)
                continue
            if found.missing_versions or found.digest_mismatches or found.foreign_versions:
                drifted.add(target.name)
                facts = {"table": target.name, "error": found.told}
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
