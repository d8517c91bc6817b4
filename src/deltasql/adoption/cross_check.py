"""The proof of an adoption: SQL's view of a version, compared with another reader's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltasql.adoption.loading.foreign_log import LogPlan
from deltasql.delta_log.reading import FilesAside, read_mirror
from deltasql.errors import DeltaSqlError, LogFormatError, MirrorError
from deltasql.log.state import TableState
from deltasql.mirror.validation.second_reader import FilesDigest, independent_view
from deltasql.objectstore import ObjectStore
from deltasql.store.checking.scratch import Scratch
from deltasql.store.interface import LogStore

# Beyond this many files, only the newest version is compared.
MANY: Final = 200_000
LONG: Final = 50
_SAMPLES: Final = 3
# How many commits the other reader replays for a sample of a long history.
_FAR: Final = 1_000


class CrossCheck:
    """Compares staged tables with their logs.

    delta-rs reads the log if it is installed; if it is not, or gives up, deltasql's own replay of
    the mirror does. The replay starts from the newest checkpoint, if there is one, and so takes a
    different path than adoption.
    """

    def __init__(self, log: LogStore, objects: ObjectStore, options: Mapping[str, str]) -> None:
        self._log = log
        self._objects = objects
        self._options = options

    def __call__(self, table_id: int, plan: LogPlan, state: TableState) -> None:
        """Raise `LogFormatError` if any sampled version differs."""
        files = self._log.totals(table_id, state.version).files
        self._compare(table_id, plan, state.version, files)
        for version in samples(plan, state.version) if files <= MANY else ():
            self._compare(table_id, plan, version, files)

    def _compare(self, table_id: int, plan: LogPlan, version: int, files: int) -> None:
        reader, theirs = self._theirs(plan, version, files)
        if theirs is None:
            return
        ours = FilesDigest()
        for batch in self._log.files(table_id, version):
            columns = (batch.column(name).to_pylist() for name in ("path", "size"))
            ours.take(zip(*columns, strict=True))
        if ours != theirs:
            raise LogFormatError(
                f"{reader} reads version {version} of {self._objects.location} differently",
                cause=f"it finds {theirs.files} files, deltasql {ours.files}; or their sizes "
                "differ",
                remedy="nothing was changed; inspect the log, or pass validate=False to trust "
                "deltasql",
                version=version,
            )

    def _theirs(self, plan: LogPlan, version: int, files: int) -> tuple[str, FilesDigest | None]:
        found = FilesDigest()
        commits = version - _start(plan, version)
        try:
            with independent_view(
                self._objects.location, version, self._options, files=files, commits=commits
            ) as view:
                if view is not None:
                    found.take(view.paths_and_sizes())
                    return "delta-rs", found
        except MirrorError:
            found = FilesDigest()
        with Scratch() as scratch:
            try:
                read_mirror(self._objects, plan.listing, version, FilesAside(scratch))
            except DeltaSqlError:
                return "", None
            found.take(scratch.left_sizes())
        return "a replay from the newest checkpoint", found


def samples(plan: LogPlan, newest: int) -> list[int]:
    """A few versions before the newest, evenly spread; of a long history, only one about the
    middle, not far from a checkpoint.

    Each of them costs the other reader another pass over the log.
    """
    length = newest - plan.earliest
    if length > LONG:
        middle = plan.earliest + length // 2
        return [min(middle, _start(plan, middle) + _FAR)]
    step = max(1, length // _SAMPLES)
    return list(range(plan.earliest, newest, step))[: _SAMPLES + 1]


def _start(plan: LogPlan, version: int) -> int:
    """Where a reader of a version begins."""
    newest = next(plan.listing.newest_first(version), None)
    return plan.earliest if newest is None else newest.version
