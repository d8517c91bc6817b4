"""Tables whose `_delta_log` is one commit file and a checkpoint of the same version.

The commit says nothing of files: what readers find of them, they find in the checkpoint.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from duckdb_extensions import import_extension

from deltasql.delta_log.checkpoint.v2 import uses_v2, write_v2_checkpoint
from deltasql.delta_log.checkpoint.writing import CheckpointSource, write_checkpoint
from deltasql.delta_log.last_checkpoint import render_last_checkpoint
from deltasql.delta_log.names import LAST_CHECKPOINT, checkpoint_name, commit_name
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import Action, CommitInfo
from deltasql.testing.delta_log import CheckpointActions, check_checkpoint, check_commit_file


def write_log(
    root: Path, source: CheckpointSource, *, body: bytes | None = None, **options: Any
) -> CheckpointActions:
    """Write the `_delta_log`; returns what the checkpoint says, checked."""
    log = root / "_delta_log"
    log.mkdir(parents=True)
    version = source.state.version
    (log / commit_name(version)).write_bytes(body or _commit(version, source.state))
    check_commit_file((log / commit_name(version)).read_bytes(), version)
    if uses_v2(source.state):
        return _write_v2(log, source, **options)
    path = log / checkpoint_name(version)
    with path.open("wb") as sink:
        summary = write_checkpoint(sink, source)
    assert summary.size_in_bytes == path.stat().st_size
    (log / LAST_CHECKPOINT).write_bytes(render_last_checkpoint(summary))
    return check_checkpoint(path)


def _write_v2(log: Path, source: CheckpointSource, **options: Any) -> CheckpointActions:
    (log / "_sidecars").mkdir()

    @contextmanager
    def open_sink(name: str) -> Iterator[BinaryIO]:
        with (log / name).open("xb") as sink:
            yield sink

    done = write_v2_checkpoint(
        open_sink, source, new_uuid=lambda: str(uuid.uuid4()), modification_time=1, **options
    )
    (log / LAST_CHECKPOINT).write_bytes(render_last_checkpoint(done.summary))
    return check_checkpoint(log / done.name, sidecars=lambda name: log / "_sidecars" / name)


def _commit(version: int, state: TableState) -> bytes:
    actions: list[Action] = [CommitInfo(in_commit_timestamp=state.in_commit_timestamp)]
    if version == 0:
        actions += [state.protocol, state.metadata]
    return codec.encode_commit(actions)


# --- readers --------------------------------------------------------------------------


def by_deltalake(root: Path) -> pa.Table:
    """The rows as delta-rs reads them."""
    query = QueryBuilder().register("t", DeltaTable(root)).execute("select * from t")
    return pa.table(query)


def by_polars(root: Path) -> pa.Table:
    """The rows as Polars reads them."""
    return pl.scan_delta(str(root)).collect().to_arrow()


class Duck:
    """DuckDB with its delta extension."""

    def __init__(self) -> None:
        import_extension("delta")
        self._connection = duckdb.connect()
        self._connection.execute("LOAD delta")
        self._connection.execute("SET TimeZone = 'UTC'")

    def ask(self, question: str, root: Path, *more: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(question, [str(root), *more]).fetchall()

    def rows(self, root: Path) -> pa.Table:
        return self._connection.execute("FROM delta_scan(?)", [str(root)]).to_arrow_table()

    def files(self, root: Path) -> list[tuple[str, dict[str, Any], bool]]:
        """Path, partition values and whether there is a deletion vector, of each file."""
        found = self.ask(
            "SELECT data_file, partitions, have_deletes FROM delta_list_files(?)", root
        )
        return [
            (path.removeprefix(f"{root}/"), values or {}, deletes)
            for path, values, deletes in found
        ]

    def domains(self, root: Path) -> dict[str, str]:
        return dict(self.ask("SELECT domain, configuration FROM delta_domain_metadata(?)", root))


def plain(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows to compare: in the order of `names`, sorted, without the readers' Arrow dialects."""
    rows = [tuple(_plain(row[name]) for name in names) for row in table.to_pylist()]
    return sorted(rows, key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
