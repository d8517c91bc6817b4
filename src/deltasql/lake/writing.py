"""From rows to actions: what an append and an overwrite write before they commit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from deltasql.commit.discarding import Abandon
from deltasql.data.arrow_schema import from_arrow
from deltasql.data.computing.completing import completed
from deltasql.data.conform import as_arrow, conform, merge
from deltasql.data.expressions.conditions import Condition, readable_condition
from deltasql.data.layout import layout_of
from deltasql.data.reading.remainder import Remainder
from deltasql.data.writing.change_files import ChangeWriter
from deltasql.data.writing.fitting import fitted, must_satisfy
from deltasql.data.writing.properties import FileOptions
from deltasql.data.writing.vectors import live_rows
from deltasql.data.writing.writer import PLAIN, NewFile, write_files
from deltasql.errors import ValidationError
from deltasql.lake.dml.metrics import write_metrics
from deltasql.lake.snapshot import Snapshot
from deltasql.log.conflict import Reads
from deltasql.log.removal import (
    Removable,
    Sorted,
    WholeFile,
    every_row,
    removes,
    rewritten,
    sort_by_match,
)
from deltasql.log.state import TableState
from deltasql.maintenance.altering.properties import with_properties
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, CdcFile, CommitInfo, Metadata, Txn
from deltasql.spec.column_mapping import assign_column_mapping, max_column_id
from deltasql.spec.properties import MAX_COLUMN_ID
from deltasql.spec.protocol import upgraded
from deltasql.spec.schema import StructType, render_schema
from deltasql.telemetry import tracing

_OWN_INFO = frozenset(
    {
        "timestamp", "inCommitTimestamp", "operation", "operationParameters", "operationMetrics",
        "engineInfo", "isBlindAppend", "readVersion", "isolationLevel", "txnId",
    }
)  # fmt: skip
# Who commits, instead of the lake's committer.
_USER_NAME = "userName"
# How much memory the engine may use by default.
_MEMORY = "1GB"
# The first digit of a UUID's fourth group has two bits that are always the same.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


# Not frozen: a frozen constructor takes five times as long, and each small commit runs it.
@dataclass(slots=True, kw_only=True)
class Write:
    """Actions ready to be committed, and the new files behind them."""

    actions: Sequence[Action]
    operation: str
    operation_params: Mapping[str, Any] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads.nothing)
    read_version: int | None = None
    files: Sequence[NewFile] = ()
    # What it did, under the names of Delta's operationMetrics.
    metrics: Mapping[str, int] = field(default_factory=dict)


def now_ms() -> int:
    """The time by this machine's clock; versions are stamped by the database's instead."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """A unique name: the text of a random UUID, without the cost of a UUID object."""
    digits = os.urandom(16).hex()
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def new_commit_id() -> str:
    """A unique name for a commit, which carries its trace if there is one."""
    return tracing.commit_id() or new_id()


def txn_actions(app_id: str | None, app_version: int | None) -> list[Action]:
    """The txn that makes a write happen only once."""
    if app_id is None and app_version is None:
        return []
    if app_id is None or app_version is None:
        raise ValidationError(
            "app_id and app_version belong together", remedy="give both, or neither"
        )
    return [Txn(app_id=app_id, version=app_version, last_updated=now_ms())]


def commit_info(
    metrics: Mapping[str, int], metadata: Mapping[str, Any] | None = None
) -> list[CommitInfo]:
    """What a commit says about a write: its metrics, as Delta's texts, and the user's metadata."""
    if not metrics and not metadata:
        return []
    for name in metadata or ():
        if name in _OWN_INFO:
            raise ValidationError(
                f"commit_metadata can't have {name!r:.80}",
                cause="the commit sets that itself",
                remedy="choose another name",
            )
    said: dict[str, Any] = dict(metadata or {})
    committer = said.pop(_USER_NAME, None)
    if not isinstance(committer, str | None):
        raise ValidationError(
            f"{_USER_NAME} can't be {committer!r:.80}", remedy="give the committer's name as text"
        )
    if metrics:
        said["operationMetrics"] = {name: str(value) for name, value in metrics.items()}
    return [CommitInfo(user_name=committer, extra=said)]


def append(
    objects: ObjectStore,
    state: TableState,
    data: Any,
    *,
    schema_mode: str | None = None,
    memory_limit: str = _MEMORY,
    options: FileOptions = PLAIN,
    abandon: Abandon | None = None,
) -> Write:
    """Write rows as new files; `abandon` gets the files of a write that fails half-way.

    Columns that the table computes are computed, with up to `memory_limit`.
    """
    metadata, changes = _evolved(state, data, schema_mode)
    if layout_of(metadata).computes is None:
        rows = fitted(metadata, data)
        files = write_fitted(objects, metadata, rows, abandon, options)
        return _appended(state.version, metadata, files, changes)
    with completed(metadata, data, memory_limit=memory_limit) as found:
        files = write_fitted(objects, metadata, found.rows, abandon, options)
        changes = numbered(metadata, found.metadata(metadata), changes)
        return _appended(state.version, metadata, files, changes)


def append_fitted(
    objects: ObjectStore, state: TableState, rows: pa.Table, *, abandon: Abandon | None = None
) -> Write:
    """Write rows that were `fitted` to the table's metadata."""
    files = write_fitted(objects, state.metadata, rows, abandon)
    return _appended(state.version, state.metadata, files)


def _appended(
    version: int, metadata: Metadata, files: Sequence[AddFile], changes: Sequence[Action] = ()
) -> Write:
    return Write(
        actions=[*changes, *files],
        operation="WRITE",
        operation_params=_append_params(tuple(metadata.partition_columns)),
        read_version=version,
        files=files,
    )


def numbered(before: Metadata, after: Metadata, changes: Sequence[Action]) -> list[Action]:
    """The changes of a write, including the metadata that its identity columns leave."""
    if after is before:
        return list(changes)
    others = [action for action in changes if not isinstance(action, Metadata)]
    return [*others, after]


def written(files: Iterable[Any], rows: int) -> dict[str, int]:
    """The metrics of a write's new files, under Delta's names."""
    sizes = [add.size for add in files]
    return {"numFiles": len(sizes), "numOutputRows": rows, "numOutputBytes": sum(sizes)}


def rows_in(data: pa.Table | pa.RecordBatchReader, files: Iterable[NewFile]) -> int:
    """How many rows were written; a stream is exhausted by then, so its files say."""
    if isinstance(data, pa.Table):
        return int(data.num_rows)
    adds = (file for file in files if isinstance(file, AddFile))
    return sum(live_rows(add) or 0 for add in adds)


@lru_cache(maxsize=256)
def _append_params(partition_columns: tuple[str, ...]) -> Mapping[str, str]:
    columns = codec.dumps(partition_columns).decode()
    return {"mode": "Append", "partitionBy": columns}


def overwrite(  # noqa: PLR0913 - what the public call takes
    objects: ObjectStore,
    snapshot: Snapshot,
    data: Any,
    *,
    where: str | None = None,
    schema_mode: str | None = None,
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    memory_limit: str = _MEMORY,
    options: FileOptions = PLAIN,
    abandon: Abandon | None = None,
) -> Write:
    """Replace the rows that satisfy `where`, by default all, with new ones.

    `properties` are set by the same commit.
    """
    given = as_arrow(data)
    metadata, changes = replaced(snapshot.state, given.schema, where, schema_mode, partition_by)
    if properties:
        metadata, changes = with_properties(snapshot.state, metadata, properties, new_id=new_id)
    condition = None if where is None else readable_condition(snapshot.state.schema, where)
    predicate = None if condition is None else condition.predicate
    found = _found(snapshot, condition)
    files: list[AddFile | CdcFile] = []
    kept: list[AddFile] = []
    with ExitStack() as stack:
        mask = None if condition is None else stack.enter_context(condition.masking())
        stack.enter_context(_or_abandoned(files, abandon))
        with completed(metadata, given, memory_limit=memory_limit) as taken:
            rows = taken.rows
            if mask is not None:
                rows = must_satisfy(rows, mask, where or "")
            new = write_fitted(objects, metadata, rows, abandon, options)
            files += new
            changes = numbered(metadata, taken.metadata(metadata), changes)
        rest = Remainder(objects, snapshot.state, condition, mask, found.partial)
        if found.partial:
            # Rows that stay are taken as they are: they were computed and checked before.
            layout = layout_of(metadata)
            staying = conform(rest.rows(), layout.schema, arrow_schema=layout.logical)
            kept = write_fitted(objects, metadata, staying, abandon, options)
            files += kept
            if kept and snapshot.state.has_change_feed:
                files += _changes(objects, snapshot.state, rest, found.whole, new)
    gone: list[Removable] = [*found.whole, *rewritten(rest.touched)]
    params: dict[str, Any] = {
        "mode": "Overwrite",
        "partitionBy": list(metadata.partition_columns),
    }
    if where is not None:
        params["predicate"] = where
    keys = frozenset((add.path, add.dv_id) for add in gone)
    return Write(
        actions=[*changes, *removes(gone, deletion_timestamp=now_ms()), *files],
        operation="WRITE",
        operation_params=params,
        reads=Reads.all() if predicate is None else Reads.where(predicate, files=keys),
        read_version=snapshot.version,
        files=files,
        metrics=write_metrics(files, gone, None if where is None else kept),
    )


@contextmanager
def _or_abandoned(files: Sequence[NewFile], abandon: Abandon | None) -> Iterator[None]:
    """Delete what was written if the rest fails."""
    try:
        yield
    except Exception:
        if abandon is not None:
            abandon([file.path for file in files])
        raise


def write_rows(
    objects: ObjectStore, metadata: Metadata, data: Any, *, abandon: Abandon | None = None
) -> list[AddFile]:
    """Conform rows to a table, check its constraints, and write them as files."""
    return write_fitted(objects, metadata, fitted(metadata, data), abandon)


def write_fitted(
    objects: ObjectStore,
    metadata: Metadata,
    rows: pa.Table | pa.RecordBatchReader,
    abandon: Abandon | None,
    options: FileOptions = PLAIN,
) -> list[AddFile]:
    """Write rows that were fitted to a table as files."""
    return write_files(
        objects,
        layout=layout_of(metadata),
        data=rows,
        new_id=new_id,
        now_ms=now_ms,
        options=options,
        abandon=abandon,
    )


# --- schema -----------------------------------------------------------------------------


def replaced(
    state: TableState,
    incoming: pa.Schema,
    where: str | None,
    schema_mode: str | None,
    partition_by: Sequence[str] | None,
) -> tuple[Metadata, list[Action]]:
    """The metadata that an overwrite leaves, and the actions for that."""
    if schema_mode in (None, "merge"):
        if partition_by is not None and tuple(partition_by) != state.partition_columns:
            raise ValidationError(
                f"the table is partitioned by {', '.join(state.partition_columns) or 'nothing'}",
                cause="only an overwrite of the schema changes that",
                remedy='pass schema_mode="overwrite" as well',
            )
        return (state.metadata, []) if schema_mode is None else evolved(state, incoming)
    if schema_mode != "overwrite" or where is not None:
        raise ValidationError(
            f"schema_mode {schema_mode!r:.40} is unknown here",
            cause="a condition keeps rows, and so the schema" if where is not None else "",
            remedy='use "merge", or without a condition "overwrite"',
        )
    mapped = state.column_mapping != "none"
    schema = from_arrow(incoming, column_mapping=mapped)
    names = state.partition_columns if partition_by is None else tuple(partition_by)
    return _changed(state, schema, names)


def _evolved(
    state: TableState, data: Any, schema_mode: str | None
) -> tuple[Metadata, list[Action]]:
    if schema_mode is None:
        return state.metadata, []
    if schema_mode != "merge":
        raise ValidationError(f"schema_mode {schema_mode!r} is unknown", remedy='use "merge"')
    return evolved(state, as_arrow(data).schema)


def evolved(state: TableState, incoming: pa.Schema) -> tuple[Metadata, list[Action]]:
    """The table's metadata with columns that only new rows have, and the actions for that."""
    mapped = state.column_mapping != "none"
    schema = merge(state.schema, incoming, column_mapping=mapped)
    return _changed(state, schema, state.partition_columns)


def _changed(
    state: TableState, schema: StructType, partition_columns: tuple[str, ...]
) -> tuple[Metadata, list[Action]]:
    if schema == state.schema and partition_columns == state.partition_columns:
        return state.metadata, []
    configuration = dict(state.properties)
    if state.column_mapping != "none":
        schema, highest = assign_column_mapping(
            schema, highest=max_column_id(configuration), new_id=new_id
        )
        configuration[MAX_COLUMN_ID] = str(highest)
    metadata = replace(
        state.metadata,
        schema_string=render_schema(schema),
        partition_columns=partition_columns,
        configuration=configuration,
    )
    protocol = upgraded(state.protocol, schema, configuration)
    return metadata, [metadata, *([protocol] if protocol is not None else [])]


# --- rows -------------------------------------------------------------------------------


def _found(snapshot: Snapshot, condition: Condition | None) -> Sorted:
    """The files that an overwrite replaces whole, and those that it has to read."""
    if condition is None:
        return Sorted(every_row(snapshot.adds(None)), [])
    sure = condition.predicate if condition.is_whole else None
    adds, state = snapshot.adds(condition.predicate), snapshot.state
    return sort_by_match(adds, sure, state.schema, state.partition_columns)


def _changes(
    objects: ObjectStore,
    state: TableState,
    rest: Remainder,
    whole: Sequence[WholeFile],
    new: Sequence[AddFile],
) -> list[CdcFile]:
    """What an overwrite changed, row by row: rows that stay were rewritten, too."""
    writer = ChangeWriter(objects, state, new_id=new_id, now_ms=now_ms)
    return writer.write(
        ("delete", writer.rows(whole)), ("delete", rest.gone()), ("insert", writer.rows(new))
    )
