"""The proof of an adoption: SQL's view of a version, compared with another reader's."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.adoption.loading.foreign_log import LogPlan
from deltasql.adoption.second_reader import FilesDigest, ask_second_reader, plain_path
from deltasql.delta_log.reading import read_mirror
from deltasql.errors import DeltaSqlError, LogFormatError
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore

# Beyond this many files, only the newest version is compared, in a separate process.
MANY = 200_000
LONG = 50
_SAMPLES = 3


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
        if self._log.totals(table_id, state.version).files > MANY:
            self._compare_many(table_id, state.version)
            return
        for version in [state.version, *samples(plan.earliest, state.version)]:
            self._compare(table_id, plan, version)

    def _compare_many(self, table_id: int, version: int) -> None:
        """Compare the newest version only, with a reader in its own process and memory."""
        theirs = ask_second_reader(self._objects.location, version, self._options)
        if theirs is None:
            return
        ours = FilesDigest()
        for batch in self._log.files(table_id, version):
            ours.take(batch.column("path").to_pylist(), batch.column("size").to_pylist())
        if ours != theirs:
            raise self._differs("delta-rs", version, ours.files, theirs.files)

    def _compare(self, table_id: int, plan: LogPlan, version: int) -> None:
        reader, theirs = self._theirs(plan, version)
        if theirs is None:
            return
        ours = self._log.files(table_id, version).read_all().select(["path", "size"])
        if not same_files(ours, theirs):
            raise self._differs(reader, version, ours.num_rows, theirs.num_rows)

    def _differs(self, reader: str, version: int, ours: int, theirs: int) -> LogFormatError:
        return LogFormatError(
            f"{reader} reads version {version} of {self._objects.location} differently",
            cause=f"it finds {theirs} files, deltasql {ours}; or their sizes differ",
            remedy="nothing was changed; look at the log, or pass validate=False to trust deltasql",
            version=version,
        )

    def _theirs(self, plan: LogPlan, version: int) -> tuple[str, pa.Table | None]:
        found = delta_rs_files(self._objects.location, version, self._options)
        if found is not None:
            return "delta-rs", found
        try:
            replay = read_mirror(self._objects, plan.listing, version).replay
        except DeltaSqlError:
            return "", None
        adds = replay.files.values()
        columns = {
            "path": pa.array([add.path for add in adds], pa.string()),
            "size": pa.array([add.size for add in adds], pa.int64()),
        }
        return "a replay from the newest checkpoint", pa.table(columns)


def samples(earliest: int, newest: int) -> list[int]:
    """A few versions before the newest, evenly spread; of a long history, only the middle one.

    Each of them costs the other reader another pass over the log.
    """
    length = newest - earliest
    if length > LONG:
        return [earliest + length // 2]
    step = max(1, length // _SAMPLES)
    return list(range(earliest, newest, step))[: _SAMPLES + 1]


def delta_rs_files(location: str, version: int, options: Mapping[str, str]) -> pa.Table | None:
    """Path and size of the files that delta-rs finds; None if it can't tell."""
    try:
        import deltalake

        table = deltalake.DeltaTable(location, version=version, storage_options=dict(options))
        found = pa.table(table.get_add_actions())
    except Exception:  # noqa: BLE001 - not installed, or whatever its layers raise: no second reader
        return None
    return pa.table({"path": found.column("path"), "size": found.column("size_bytes")})


def same_files(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether both have the same files of the same size, however their paths are escaped."""
    if ours.num_rows != theirs.num_rows:
        return False
    if _sorted(ours).equals(_sorted(theirs)):
        return True
    if pc.sum(ours["size"]) != pc.sum(theirs["size"]):
        return False
    return _decoded(ours) == _decoded(theirs)


def _sorted(files: pa.Table) -> pa.Table:
    plain = pa.table(
        {"path": files["path"].cast(pa.string()), "size": files["size"].cast(pa.int64())}
    )
    return plain.sort_by([("path", "ascending"), ("size", "ascending")]).combine_chunks()


def _decoded(files: pa.Table) -> list[tuple[str, int]]:
    paths = map(plain_path, files["path"].to_pylist())
    return sorted(zip(paths, files["size"].to_pylist(), strict=True))
