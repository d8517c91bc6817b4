"""The proof of an adoption: what SQL says of a version against what another reader finds."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.adoption.foreign_log import LogPlan
from deltasql.errors import DeltaSqlError, LogFormatError
from deltasql.log.state import TableState
from deltasql.mirror.reading import read_mirror
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore

# Beyond this many files only the newest version is compared.
_MANY = 200_000
_SAMPLES = 4


class Proof:
    """Compares staged tables with their logs.

    delta-rs reads the log where it is installed, deltasql's own replay of the mirror where it
    is not or gives up: that one begins at the newest checkpoint, and so takes another way than
    adoption wherever there is one.
    """

    def __init__(self, log: LogStore, objects: ObjectStore, options: Mapping[str, str]) -> None:
        self._log = log
        self._objects = objects
        self._options = options

    def __call__(self, table_id: int, plan: LogPlan, state: TableState) -> None:
        """Raise `LogFormatError` if any sampled version differs."""
        ours = self._ours(table_id, state.version)
        self._compare(ours, plan, state.version)
        if ours.num_rows > _MANY:
            return
        for version in samples(plan.earliest, state.version):
            self._compare(self._ours(table_id, version), plan, version)

    def _ours(self, table_id: int, version: int) -> pa.Table:
        batches = [batch.select(["path", "size"]) for batch in self._log.files(table_id, version)]
        schema = pa.schema([("path", pa.string()), ("size", pa.int64())])
        return pa.Table.from_batches(
            [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches], schema
        )

    def _compare(self, ours: pa.Table, plan: LogPlan, version: int) -> None:
        reader, theirs = self._theirs(plan, version, ours.num_rows)
        if theirs is None or same_files(ours, theirs):
            return
        raise LogFormatError(
            f"{reader} reads version {version} of {self._objects.location} differently",
            cause=f"it finds {theirs.num_rows} files, deltasql {ours.num_rows}",
            remedy="nothing was changed; look at the log, or pass validate=False to trust deltasql",
            version=version,
        )

    def _theirs(self, plan: LogPlan, version: int, files: int) -> tuple[str, pa.Table | None]:
        found = delta_rs_files(self._objects.location, version, self._options)
        if found is not None:
            return "delta-rs", found
        if files > _MANY:
            return "", None
        try:
            replay = read_mirror(self._objects, plan.listing, version).replay
        except DeltaSqlError:
            return "", None
        adds = replay.files.values()
        columns = {"path": [add.path for add in adds], "size": [add.size for add in adds]}
        return "a replay from the newest checkpoint", pa.table(columns)


def samples(earliest: int, newest: int) -> list[int]:
    """A few versions before the newest, spread evenly, the oldest among them."""
    if newest <= earliest:
        return []
    step = max(1, (newest - earliest) // _SAMPLES)
    return list(range(earliest, newest, step))[: _SAMPLES + 1]


def delta_rs_files(location: str, version: int, options: Mapping[str, str]) -> pa.Table | None:
    """Path and size of the files that delta-rs finds; None where it can't tell."""
    try:
        import deltalake

        table = deltalake.DeltaTable(location, version=version, storage_options=dict(options))
        found = pa.table(table.get_add_actions())
    except Exception:  # noqa: BLE001 - not installed, or whatever its layers raise: no witness
        return None
    return pa.table({"path": found.column("path"), "size": found.column("size_bytes")})


def same_files(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether both have the same files of the same size; how paths are escaped is taste."""
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
    paths = [unquote(path).rpartition("://")[2].lstrip("/") for path in files["path"].to_pylist()]
    return sorted(zip(paths, files["size"].to_pylist(), strict=True))
