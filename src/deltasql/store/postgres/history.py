"""Loading histories into PostgreSQL: COPY for files, arrays for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import psycopg
from psycopg import errors

from deltasql.store import rows
from deltasql.store.chunks.adds import as_copy_lines
from deltasql.store.chunks.copy_lines import add_lines, copy_line, copy_number, copy_text
from deltasql.store.claims import Ask, staged_at, take_over, take_place
from deltasql.store.history import (
    TRIMS,
    HistoryEnd,
    HistoryRows,
    StagedTable,
    name_taken,
)
from deltasql.store.mirroring.interface import Lease
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.payload import json_rows
from deltasql.store.postgres.reader import SQL
from deltasql.store.rows import Row

Connection = psycopg.Connection[tuple[Any, ...]]

_LINES: Final = 2_000
_OTHERS: Final = {
    "txns": rows.TXN_COLUMNS,
    "domains": rows.DOMAIN_COLUMNS,
    "cdc": rows.CDC_COLUMNS,
    "metadata": rows.METADATA_COLUMNS,
    "protocol": rows.PROTOCOL_COLUMNS,
}
_RETIRED: Final = (
    "versions",
    "path_keys",
    "dv_keys",
    "paths",
    "timestamps",
    "changes",
    "vectors",
    "actions",
)
_VERSIONS: Final = (
    "versions",
    "commit_ids",
    "times",
    "committers",
    "operations",
    "params",
    "blind",
    "digests",
    "encodings",
    "bodies",
    "checkpoints",
)


class PostgresHistory:
    """The part of the store that loads histories."""

    _connections: Connections
    add_chunk = staticmethod(as_copy_lines)

    def stage_table(self, name: str, location: str) -> int:
        with self._connections.transaction("staging a table") as connection:
            ask = placing(connection)
            found = staged_at(ask, location)
            if found is not None:
                return found
            ((table_id,),) = ask("history_stage", name=name, location=location)
            take_place(ask, location, table_id=table_id, adopting=True)
            return int(table_id)

    def staged_tables(self) -> list[StagedTable]:
        return [StagedTable(*row) for row in self._connections.rows(SQL["history_staged"], {})]

    def load_history(self, lease: Lease, rows: HistoryRows) -> bool:
        with self._connections.transaction("loading a history", is_long=True) as connection:
            if not _holds(connection, lease):
                return False
            write_history(connection, lease.table_id, rows)
            return True

    def trim_history(self, lease: Lease, *, after: int) -> bool:
        with self._connections.transaction("trimming a history", is_long=True) as connection:
            if not _holds(connection, lease):
                return False
            place = {"table_id": lease.table_id, "after": after}
            for name in TRIMS:
                connection.execute(SQL[name], place)
            return True

    def finish_history(self, lease: Lease, end: HistoryEnd) -> bool:
        with self._connections.transaction("finishing a history", is_long=True) as connection:
            if not _holds(connection, lease):
                return False
            # Before giving up a name that somebody with the lock may wait for.
            ask = placing(connection)
            if end.replaces is not None:
                gone = {"table_id": end.replaces}
                connection.execute(SQL["head_drop"], gone)
                connection.execute(SQL["table_drop"], gone)
            values = {"table_id": lease.table_id, **asdict(end)}
            ((location,),) = ask("history_location", table_id=lease.table_id)
            take_over(ask, location, table_id=lease.table_id)
            connection.execute(SQL["history_head"], values)
            try:
                connection.execute(SQL["history_show"], values)
            except errors.UniqueViolation:
                raise name_taken(end.name) from None
            return True

    def read_only_reason(self, table_id: int) -> str | None:
        found = self._connections.rows(SQL["read_only_get"], {"table_id": table_id})
        return found[0][0] if found else None

    def set_read_only(self, table_id: int, reason: str | None) -> bool:
        with self._connections.statement("changing a table") as connection:
            place = {"table_id": table_id, "reason": reason}
            # Only the owner may take it back.
            query = "read_only_set" if reason is None else "read_only_give"
            return connection.execute(SQL[query], place).fetchone() is not None


def placing(connection: LogConnection) -> Ask:
    """Keep others from taking a place until the transaction ends; returns a runner of named
    queries.
    """
    connection.execute(SQL["places_lock"])

    def ask(name: str, /, **parameters: Any) -> list[Row]:
        return connection.execute(SQL[name], parameters).fetchall()

    return ask


def _holds(connection: LogConnection, lease: Lease) -> bool:
    place = {"table_id": lease.table_id, "token": lease.token}
    return connection.execute(SQL["history_lease"], place).fetchone() is not None


def write_history(connection: LogConnection, table_id: int, part: HistoryRows) -> None:
    """Write a part, inside the open transaction."""
    place = {"table_id": table_id}
    if part.times_before is not None:
        version, ict = part.times_before
        moment = {**place, "version": version, "ict": ict}
        connection.execute(SQL["history_times_apart"], moment)
        connection.execute(SQL["history_times_set"], moment)
    if part.retired:
        connection.execute(SQL["history_plans"])
        given = _columns(_RETIRED, part.retired)
        connection.execute(SQL["history_retire"], {**place, **given})
    if part.adds:
        _copy(connection, "adds_copy", _chunks(add_lines(table_id, part.adds)))
    if part.chunks:
        _copy(connection, "adds_copy", part.chunks)
    if part.dead:
        _copy(connection, "history_dead_copy", _chunks(_dead_lines(table_id, part.dead)))
    for kind, columns in _OTHERS.items():
        found: list[Row] = getattr(part, kind)
        if found:
            text = json_rows(("version", *columns), found)
            connection.execute(SQL[f"history_{kind}"], {**place, "rows": text})
    if part.partitions:
        text = json_rows(rows.PARTITION_COLUMNS, part.partitions)
        connection.execute(SQL["history_partitions"], {**place, "rows": text})
    if part.versions:
        given = _columns(_VERSIONS, part.versions)
        connection.execute(SQL["history_versions"], {**place, **given})


def _columns(names: Sequence[str], found: Sequence[Row]) -> dict[str, list[Any]]:
    return dict(zip(names, map(list, zip(*found, strict=True)), strict=True))


def _copy(connection: LogConnection, name: str, chunks: Iterable[str | bytes]) -> None:
    with connection.cursor() as cursor, cursor.copy(SQL[name]) as copy:
        for chunk in chunks:
            copy.write(chunk)


def _chunks(lines: Iterable[str]) -> Iterator[str]:
    waiting: list[str] = []
    for line in lines:
        waiting.append(line)
        if len(waiting) == _LINES:
            yield "".join(waiting)
            waiting.clear()
    if waiting:
        yield "".join(waiting)


def _dead_lines(table_id: int, dead: Iterable[Row]) -> Iterator[str]:
    start = f"{table_id}\t"
    for row in dead:
        removed, stamp, changes, action = row[-4:]
        change = "\\N" if changes is None else "t" if changes else "f"
        yield (
            f"{start}{row[0]}\t{copy_line(row[1:-4])}\t{removed}"
            f"\t{copy_number(stamp)}\t{change}\t{copy_text(action)}\n"
        )
