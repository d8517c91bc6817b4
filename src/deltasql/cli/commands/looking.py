"""Looking at tables: tables, show, history, files, scan, audit."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltasql.cli.session import Session, TableName, command
from deltasql.cli.text import in_units, jsonable

if TYPE_CHECKING:
    from deltasql.lake.history import HistoryEntry
    from deltasql.lake.looking.auditing import AuditEntry
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table

Where = Annotated[
    str | None,
    typer.Option("--where", help="Condition, e.g. \"day = '2026-11-01'\".", metavar="CONDITION"),
]
Version = Annotated[
    int | None, typer.Option("--version", help="As of this version.", metavar="N", min=0)
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="As of this time, ISO-8601, UTC by default.", metavar="TIME"),
]
Limit = Annotated[
    int, typer.Option("--limit", help="Maximum number; 0 for all.", metavar="N", min=0)
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "tables",
        examples=[
            "deltasql tables",
            "deltasql tables 'sales.*' --output json",
            "deltasql tables --dropped",
            "deltasql tables --all",
        ],
    )(tables)
    command(
        app,
        "show",
        examples=["deltasql show sales.orders", "deltasql show sales.orders --version 7"],
    )(show)
    command(app, "history", examples=["deltasql history sales.orders --limit 5"])(history)
    command(
        app,
        "files",
        examples=[
            "deltasql files sales.orders",
            "deltasql files sales.orders --where \"day = '2026-11-01'\"",
        ],
    )(files)
    command(
        app,
        "scan",
        examples=[
            "deltasql scan sales.orders --limit 20",
            "deltasql scan sales.orders --columns id,day --where 'id > 7' --output json",
        ],
    )(scan)
    command(
        app,
        "audit",
        examples=[
            "deltasql audit --since 1d --table 'sales.*'",
            "deltasql audit --from 2026-11-01T08:00 --to 2026-11-01T09:00 --output json",
        ],
    )(audit)


def tables(
    session: Session,
    pattern: Annotated[
        str, typer.Argument(help="Which tables; * and ? are wildcards.", metavar="PATTERN")
    ] = "*",
    dropped: Annotated[
        bool, typer.Option("--dropped", help="List tables that were dropped and not purged.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="List live and dropped tables.")
    ] = False,
) -> None:
    """List the tables of the lake.

    A table is live, read-only, or released: handed back to plain Delta.
    """
    from deltasql.lake.looking.details import kind_of

    with session.lake() as lake:
        gone = [item for item in lake.dropped() if fnmatchcase(item.name, pattern)]
        # In two queries, however many there are; one that was created in between is left out.
        records, heads = ([], {}) if dropped else (lake.store.tables(), lake.store.heads())
        here = [
            (item.name, heads[item.table_id].version, item.location, item.read_only_reason,
             kind_of(item.read_only_reason))
            for item in records
            if item.table_id in heads and fnmatchcase(item.name, pattern)
        ]  # fmt: skip
    if everything and not dropped:
        columns: tuple[str, ...] = ("table", "kind", "version", "location", "dropped_at", "id")
        rows: list[tuple[Any, ...]] = [
            (name, kind, version, location, None, None) for name, version, location, _, kind in here
        ]
        rows += [
            (item.name, item.kind, None, item.location, item.dropped_at, item.table_id)
            for item in gone
        ]
    elif dropped:
        columns = ("id", "table", "dropped_at", "is_purging", "location")
        rows = [
            (item.table_id, item.name, item.dropped_at, item.is_purging, item.location)
            for item in gone
        ]
    else:
        columns = ("table", "version", "location", "read_only", "kind")
        rows = list(here)
    session.out.table(columns, rows, empty="no tables")


def show(session: Session, table: TableName, version: Version = None, as_of: AsOf = None) -> None:
    """Show a table: schema, properties, size.

    Old files belong to earlier versions only: vacuum deletes them.
    """
    with session.lake() as lake:
        found = lake.table(table)
        if version is None and as_of is None:
            # By its number: what SQL knows of a released table may be shown, and says so.
            version = found.version
        snapshot = found.snapshot(version=version, timestamp=as_of)
        described = _described(found, snapshot)
    out = session.out
    if out.is_json:
        out.record(described)
        return
    columns = described.pop("schema")
    properties = described.pop("properties")
    described = {key: _worded(key, value) for key, value in described.items()}
    out.record({**described, **{f"property {key}": value for key, value in properties.items()}})
    out.table(
        ("column", "type", "nullable"),
        [(column["name"], column["type"], column["nullable"]) for column in columns],
    )


def _worded(key: str, value: Any) -> Any:
    """A value of the description for people: bytes in units, numbers in groups of three."""
    if value is None or isinstance(value, bool) or not isinstance(value, int):
        return value
    if key.endswith("bytes"):
        return in_units(value)
    return f"{value:,}" if key in _NUMBERS else value


_NUMBERS = ("rows", "files", "partitions", "old_files")


def _sized(table: Table, snapshot: Snapshot) -> dict[str, Any]:
    """How large a table is; of an earlier version what its own files tell."""
    if snapshot.version == table.version:
        sums = table.size
        return {
            "rows": sums.rows,
            "files": sums.files,
            "bytes": sums.size_bytes,
            "partitions": sums.partitions if snapshot.metadata.partition_columns else None,
            "old_files": sums.old_files,
            "old_bytes": sums.old_bytes,
        }
    count = size = 0
    for batch in snapshot.file_batches():
        count += batch.num_rows
        size += sum(batch.column("size").to_pylist())
    return {"rows": snapshot.count(), "files": count, "bytes": size}


def _described(table: Table, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "table": table.name,
        "kind": table.kind,
        "location": table.location,
        "sources": [source or "anywhere" for source in table.sources],
        "read_only": table.read_only,
        "version": snapshot.version,
        "timestamp": snapshot.timestamp,
        "partitioned_by": list(snapshot.metadata.partition_columns),
        **_sized(table, snapshot),
        "reader_version": snapshot.protocol.min_reader_version,
        "writer_version": snapshot.protocol.min_writer_version,
        "features": sorted(
            {
                *(snapshot.protocol.reader_features or ()),
                *(snapshot.protocol.writer_features or ()),
            }
        ),
        "schema": [
            {"name": field.name, "type": str(field.type), "nullable": field.nullable}
            for field in snapshot.schema
        ],
        "properties": dict(snapshot.properties),
    }


def history(session: Session, table: TableName, limit: Limit = 20) -> None:
    """List the versions of a table, newest first."""
    with session.lake() as lake:
        entries = lake.table(table).history(limit=limit or None)
    session.out.table(_HISTORY, [_entry(entry) for entry in entries], brief=_BRIEF)


_HISTORY = ("version", "timestamp", "operation", "parameters", "committer", "commit_id",
            "transaction_id")  # fmt: skip
_BRIEF = ("version", "timestamp", "operation", "committer")


def _entry(entry: HistoryEntry) -> tuple[Any, ...]:
    return (
        entry.version,
        entry.timestamp,
        entry.operation,
        entry.operation_params,
        entry.committer,
        entry.commit_id,
        entry.transaction_id,
    )


def files(
    session: Session,
    table: TableName,
    where: Where = None,
    version: Version = None,
    as_of: AsOf = None,
    limit: Limit = 0,
) -> None:
    """List the live files of a table.

    With --where, list only those that may hold matching rows. The database chooses them, by
    partition values and statistics.
    """
    columns = ("path", "size", "modification_time", "partition_values", "stats")
    with session.lake() as lake:
        snapshot = lake.table(table).snapshot(version=version, timestamp=as_of)
        rows = (
            tuple(row[name] for name in columns)
            for batch in snapshot.file_batches(where)
            for row in batch.to_pylist()
        )
        chosen = islice(rows, limit) if limit else rows
        session.out.table(columns, chosen, brief=("path", "size", "partition_values"))


def scan(
    session: Session,
    table: TableName,
    where: Where = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="Columns to print, separated by commas.", metavar="NAMES"),
    ] = None,
    version: Version = None,
    as_of: AsOf = None,
    limit: Limit = 20,
) -> None:
    """Print the rows of a table."""
    names = [name.strip() for name in columns.split(",")] if columns else None
    with session.lake() as lake:
        snapshot = lake.table(table).snapshot(version=version, timestamp=as_of)
        found = snapshot.scan(where, names)
        rows = _rows(found.to_batches())
        shown = list(islice(rows, limit)) if limit else rows
        session.out.table(found.schema.names, shown, fold=False)
        if limit and next(rows, None) is not None:
            session.out.note(f"the first {limit} rows; --limit 0 shows all")


def _rows(batches: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        # Years beyond 9999 and nanoseconds are no Python datetime.
        return [None if not item.is_valid else jsonable(str(item)) for item in column]


def audit(
    session: Session,
    start: Annotated[
        str | None, typer.Option("--from", help="From this time, ISO-8601.", metavar="TIME")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="From this long ago, e.g. 1d or 90m.", metavar="DURATION"),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--table", help="Which tables; * and ? are wildcards.", metavar="PATTERN"),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="Up to this time; now by default.", metavar="TIME")
    ] = None,
) -> None:
    """List who committed what, over all tables.

    Each version is listed with the rows and files that it added and removed; a rewritten file
    counts with all of its rows.
    """
    if start is not None and since is not None:
        raise typer.BadParameter("give --from or --since, not both")
    with session.lake() as lake:
        found = lake.audit(start, end, since=since, table=pattern, changes=True)
    session.out.table(
        ("table", *_HISTORY, *_CHANGED),
        [(item.table, *_entry(item.entry), *_changed(item)) for item in found],
        brief=("table", *_BRIEF, *_CHANGED),
    )


_CHANGED = ("rows_added", "rows_removed", "files_added", "files_removed")


def _changed(item: AuditEntry) -> tuple[int, ...]:
    assert item.changed is not None, "it was asked for"
    return tuple(getattr(item.changed, name) for name in _CHANGED)
