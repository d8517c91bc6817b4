"""Loading histories into databases in our own process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import Any, ClassVar

from deltasql.store.chunks.adds import as_rows, rows_of
from deltasql.store.claims import staged_at, take_over, take_place
from deltasql.store.embedded.committing import Session
from deltasql.store.history import (
    TRIMS,
    HistoryEnd,
    HistoryRows,
    StagedTable,
    name_taken,
)
from deltasql.store.mirroring.interface import Lease
from deltasql.store.rows import Row


class EmbeddedHistory:
    """The part of an embedded store that loads histories."""

    # Whether a name is free within the transaction that gives it up.
    _frees_names_at_once: ClassVar[bool] = True
    add_chunk = staticmethod(as_rows)

    @abstractmethod
    def _writing(self, doing: str) -> AbstractContextManager[Session]:
        """The writer's connection, in turn and inside a transaction that commits at the end."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _prepare_history(self, rows: HistoryRows) -> Any:
        """A part in the form that the session writes."""

    @abstractmethod
    def _write_history(self, writer: Session, table_id: int, prepared: Any) -> None:
        """Write what `_prepare_history` returned, inside the writer's transaction."""

    def stage_table(self, name: str, location: str) -> int:
        with self._writing("staging a table") as session:
            found = staged_at(session.rows, location)
            if found is not None:
                return found
            ((table_id,),) = session.rows("history_stage", name=name, location=location)
            take_place(session.rows, location, table_id=table_id, adopting=True)
            return int(table_id)

    def staged_tables(self) -> list[StagedTable]:
        return [StagedTable(*row) for row in self._rows("history_staged")]

    def load_history(self, lease: Lease, rows: HistoryRows) -> bool:
        if rows.chunks:
            rows = replace(rows, adds=[*rows_of(rows.chunks), *rows.adds], chunks=[])
        prepared = self._prepare_history(rows)
        with self._writing("loading a history") as session:
            if not _holds(session, lease):
                return False
            if rows.times_before is not None:
                version, ict = rows.times_before
                place = {"table_id": lease.table_id, "version": version, "ict": ict}
                session.rows("history_times_apart", **place)
                session.rows("history_times_set", **place)
            self._write_history(session, lease.table_id, prepared)
            return True

    def trim_history(self, lease: Lease, *, after: int) -> bool:
        with self._writing("trimming a history") as session:
            if not _holds(session, lease):
                return False
            for name in TRIMS:
                session.rows(name, table_id=lease.table_id, after=after)
            return True

    def finish_history(self, lease: Lease, end: HistoryEnd) -> bool:
        values = {"table_id": lease.table_id, **asdict(end)}
        del values["replaces"]
        if end.replaces is not None and not self._frees_names_at_once:
            with self._writing("replacing a table") as session:
                if not _holds(session, lease):
                    return False
                _drop(session, end.replaces)
        with self._writing("finishing a history") as session:
            if not _holds(session, lease):
                return False
            if end.replaces is not None:
                _drop(session, end.replaces)
            ((location,),) = session.rows("history_location", table_id=lease.table_id)
            take_over(session.rows, location, table_id=lease.table_id)
            if session.rows("table_by_name", name=end.name):
                raise name_taken(end.name)
            session.rows("history_head", **_named(values, _HEAD))
            session.rows("history_show", **_named(values, _SHOW))
            return True

    def read_only_reason(self, table_id: int) -> str | None:
        found = self._rows("read_only_get", table_id=table_id)
        return found[0][0] if found else None

    def set_read_only(self, table_id: int, reason: str | None) -> bool:
        with self._writing("changing a table") as session:
            return bool(session.rows("read_only_set", table_id=table_id, reason=reason))


_HEAD = (
    "table_id",
    "version",
    "last_ict",
    "earliest_version",
    "metadata_version",
    "protocol_version",
)
_SHOW = ("table_id", "name", "properties", "min_reader", "min_writer", "read_only_reason")


def _named(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _drop(session: Session, table_id: int) -> None:
    if session.rows("table_drop", table_id=table_id):
        session.rows("head_drop", table_id=table_id)


def _holds(session: Session, lease: Lease) -> bool:
    return bool(session.rows("history_lease", table_id=lease.table_id, token=lease.token))
