"""Bridging a backlog that takes too long to drain: a checkpoint at a recent version comes first,
with its commit file, so that readers are up to date; the versions below it follow later.

Readers start from the newest checkpoint, and need commit files without a gap only after it. The
checkpoint comes before its commit file, because a lone commit file behind a gap is an error to
every reader. For the moment between the two, Spark can't open the table, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Final

from deltasql.delta_log.listing import checkpoints_of, names_after
from deltasql.delta_log.names import LOG, LogKind, commit_name
from deltasql.delta_log.reading import checkpoint_fault
from deltasql.errors import MirrorConflictError, MirrorError
from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
from deltasql.mirror.repairing.checkpoints import is_wrong, point_at_newest
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.wholeness import must_be_whole
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Lease

_CHECKPOINTS: Final = frozenset({LogKind.CHECKPOINT, LogKind.V2_CHECKPOINT})
# How many times longer than the bridge the work it saves must take.
_WORTH: Final = 2


class Bridge:
    """Decides when a table's backlog is bridged, and writes the objects for it.

    `longest` is how long a backlog may take, in seconds; if None, none is bridged.
    """

    def __init__(
        self,
        log: LogStore,
        objects: ObjectStore,
        lease: Lease,
        *,
        longest: float | None,
        max_attempts: int,
    ) -> None:
        self._log = log
        self._objects = objects
        self._lease = lease
        self._longest = longest
        self._max_attempts = max_attempts
        # The seconds that one version takes in order, and that the last bridge took.
        self._each = self._took = 0.0

    def measure(self, versions: int, seconds: float) -> None:
        """Record how long it took to mirror a number of versions in order."""
        self._each = seconds / versions

    def give_up(self) -> None:
        """Stop bridging: the backlog is mirrored in order."""
        self._longest = None

    def wanted(self, mirrored: int) -> int | None:
        """The version to bridge to, if the backlog after a mirrored version takes too long."""
        if self._longest is None:
            return None
        head = self._log.head(self._lease.table_id)
        if head is None:
            return None
        left = (head.version - mirrored) * self._each
        is_long = left > max(self._longest, _WORTH * self._took)
        if not is_long or self._has_feed(mirrored) or self._has_feed(head.version):
            return None
        return head.version

    def _has_feed(self, version: int) -> bool:
        """Whether the table has a change feed: Spark reads one across a gap as if nothing had
        happened in it, so that such a table is never bridged.
        """
        found = self._log.state(self._lease.table_id, version) if version >= 0 else None
        return found is not None and found.parsed().has_change_feed

    def begun(self, mirrored: int) -> int | None:
        """The version of the newest checkpoint that SQL knows after a mirrored version: the bridge
        of a process that died.
        """
        names = list(names_after(self._objects, mirrored))
        newest = max((n.version or 0 for n in names if n.kind in _CHECKPOINTS), default=None)
        head = self._log.head(self._lease.table_id)
        if newest is None or head is None or newest > head.version:
            return None
        commits = {n.version for n in names if n.kind is LogKind.COMMIT}
        is_whole = commits.issuperset(range(mirrored + 1, newest + 1))
        # Without a gap there is no bridge: SQL merely lost the record of some versions.
        return None if is_whole else newest

    def must_be_free(self, mirrored: int) -> None:
        """Raise `MirrorError` if foreign commit files follow a mirrored version: nothing of ours is
        written beside them.
        """
        table_id = self._lease.table_id
        for name in names_after(self._objects, mirrored):
            if name.kind is LogKind.COMMIT:
                version = name.version or 0
                known = self._log.mirror_status(table_id, first=version, last=version)
                path = LOG + commit_name(version)
                found = self._objects.read(path)
                if not known or known[0].digest != sha256(found).digest():
                    must_be_whole(self._objects, path, found)
                    raise MirrorError(
                        f"{name.name} differs from what SQL has",
                        cause="a foreign writer, an older database or a broken copy wrote it",
                        remedy="inspect it; mirror.repair() reports more",
                        version=version,
                    )

    def _must_be_ours(self, version: int) -> None:
        """Raise `MirrorConflictError` if the checkpoint of a bridge that was begun contradicts SQL:
        who built it may have had another history, in a database that was restored since.
        """
        for found in checkpoints_of(self._objects, version):
            is_whole = checkpoint_fault(self._objects, found) is None
            if is_whole and is_wrong(self._log, self._objects, self._lease.table_id, found):
                raise MirrorConflictError(
                    f"the checkpoint {found.names[0]} differs from what SQL has",
                    cause="another history wrote it, such as that of a database that was restored",
                    remedy="mirror.repair() moves it aside",
                    version=version,
                )

    def write(
        self, version: int, is_stopped: Callable[[], bool] | None = None
    ) -> Callable[[], object]:
        """Write the checkpoint or, without `is_stopped`, expect it to exist. Call the result once
        its commit file is there.
        """
        if is_stopped is None:
            self._must_be_ours(version)
            return partial(point_at_newest, self._objects, upto=version)
        run = CheckpointRun(
            self._log,
            self._objects,
            self._lease,
            max_attempts=self._max_attempts,
            is_stopped=is_stopped,
        )
        begun = time.monotonic()
        summary = run.write_ahead(version)

        def finish() -> None:
            run.point_at(summary)
            self._log.note_checkpoint(self._lease.table_id, summary.size)
            self._took = time.monotonic() - begun

        return finish
