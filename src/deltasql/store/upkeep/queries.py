"""Upkeep with the named queries, the same for every dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from deltasql.places import place_of
from deltasql.store.expiring.queries import ExpiryQueries
from deltasql.store.interface import CommitRecord, Head, LockedLog
from deltasql.store.jobs.queries import JobQueries
from deltasql.store.namespaces import NamespaceQueries
from deltasql.store.optimizing.queries import OptimizeQueries
from deltasql.store.rows import Row, key_of
from deltasql.store.upkeep.interface import (
    CHANGES_SCHEMA,
    DEAD_SCHEMA,
    LIVES_SCHEMA,
    NAMED_SCHEMA,
    PATHS_SCHEMA,
    SILENCE,
    VECTORS_SCHEMA,
    WORKER,
    WORKER_SILENCE,
    Hold,
    JournalRow,
    Kind,
    LockedQueries,
    NamingTable,
    PendingDelete,
    PinRecord,
    SessionRecord,
    Writers,
)
from deltasql.store.upkeep.naming import NamingQueries, named_tables

if TYPE_CHECKING:
    from deltasql.store.claims import Claim

_SILENT = -round(SILENCE * 1000)
# A little earlier than others take it for dead, so that the two never overlap.
_LATE = round(0.9 * _SILENT)


def _ago(seconds: float) -> int:
    return -round(seconds * 1000)


class AskedLog(LockedLog, LockedQueries, Protocol):
    """A locked log that also runs named queries."""


class LockedVacuumLog(NamingQueries):
    """A locked log as vacuum uses it."""

    def __init__(self, log: AskedLog) -> None:
        super().__init__(log.ask)
        self._log = log

    @property
    def heads(self) -> Mapping[int, Head]:
        return self._log.heads

    def commits(self, table_id: int, *, after: int) -> list[CommitRecord]:
        return self._log.commits(table_id, after=after)

    def known_files(
        self, table_id: int, paths: Collection[str], *, after: int
    ) -> set[tuple[bytes, bytes]]:
        return self._log.known_files(table_id, paths, after=after)

    def read_only_reason(self, table_id: int) -> str | None:
        return self._log.read_only_reason(table_id)

    def pins(self, table_id: int) -> list[Hold]:
        return [Hold.of(*row) for row in self._log.ask("pins_of", table_id=table_id)]

    def writers(self) -> Writers:
        return Writers(*self._log.ask("writers_since", silent=_SILENT)[0])

    def journal(
        self, vacuum_id: str, batch: int, table_id: int, rows: Sequence[JournalRow]
    ) -> None:
        self._log.ask(
            "vacuum_journal",
            vacuum_id=vacuum_id,
            batch=batch,
            table_id=table_id,
            at_version=self.heads[table_id].version,
            keys=self._log.packed([key_of(row.path) for row in rows]),
            paths=self._log.packed([row.path for row in rows]),
            kinds=self._log.packed([row.kind.value for row in rows]),
            sizes=self._log.packed([str(row.size or 0) for row in rows]),
        )

    def spare(self, vacuum_id: str, paths: Collection[str], *, seconds: float) -> bool:
        found = [
            self._log.ask(
                "vacuum_spare", vacuum_id=vacuum_id, path_key=key_of(path), since=_ago(seconds)
            )
            for path in paths
        ]
        return all(found)

    def record_again(self, vacuum_id: str, batch: int) -> None:
        self._log.ask("vacuum_again", vacuum_id=vacuum_id, batch=batch)


class UpkeepQueries(ExpiryQueries, JobQueries, OptimizeQueries, NamespaceQueries):
    """What upkeep asks of a store; a dialect says how to run a query."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query that writes, in a transaction of its own."""

    @abstractmethod
    def _text(self, name: str) -> str:
        """The text of a named query."""

    @abstractmethod
    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        """The rows of a query without parameters."""

    @abstractmethod
    def claims(self, location: str) -> list[Claim]:
        """See `ClaimLog.claims`."""

    @abstractmethod
    def locked(self, table_ids: Collection[int]) -> AbstractContextManager[AskedLog]:
        """See `TxnLogWriter.locked`."""

    # --- sessions -----------------------------------------------------------------------

    def begin_session(
        self,
        session_id: str,
        *,
        kind: str,
        host: str,
        pid: int,
        committer: str | None,
        age: float,
        writing: float,
    ) -> None:
        self._change(
            "session_begin",
            session_id=session_id,
            kind=kind,
            host=host,
            pid=pid,
            committer=committer,
            started=_ago(age),
            writing=_ago(writing),
        )

    def beat(self, session_id: str, *, writing: float | None) -> bool:
        if writing is None:
            return bool(self._change("session_beat", session_id=session_id, late=_LATE))
        return bool(
            self._change(
                "session_beat_writing", session_id=session_id, writing=_ago(writing), late=_LATE
            )
        )

    def end_session(self, session_id: str) -> None:
        self._change("session_end", session_id=session_id)

    def has_worker(self) -> bool:
        return bool(self._rows("workers_alive", kind=WORKER, silent=_ago(WORKER_SILENCE)))

    def sweep(self) -> None:
        self._change("sessions_sweep", silent=_SILENT)
        self._change("pins_sweep")

    def sessions(self) -> list[SessionRecord]:
        found = self._rows("sessions_all", silent=_SILENT)
        return [SessionRecord(*(*row[:-1], bool(row[-1]))) for row in found]

    def writers(self) -> Writers:
        return Writers(*self._rows("writers_since", silent=_SILENT)[0])

    # --- pins ---------------------------------------------------------------------------

    def pin(
        self,
        pin_id: str,
        table_id: int,
        version: int,
        *,
        seconds: float,
        reason: str,
        session_id: str | None = None,
    ) -> bool:
        # Under the lock that vacuum holds while it decides: it sees the pin, or we see its list.
        with self.locked([table_id]) as log:
            if table_id not in log.heads:
                return False
            log.ask(
                "pin_add",
                pin_id=pin_id,
                table_id=table_id,
                version=version,
                reason=reason,
                session_id=session_id,
                milliseconds=round(seconds * 1000),
            )
            return True

    def renew_pin(self, pin_id: str, *, seconds: float) -> bool:
        return bool(self._change("pin_renew", pin_id=pin_id, milliseconds=round(seconds * 1000)))

    def unpin(self, pin_id: str) -> None:
        self._change("pin_remove", pin_id=pin_id)

    def pins(self) -> list[PinRecord]:
        return [PinRecord(*row) for row in self._rows("pins_all")]

    # --- vacuum -------------------------------------------------------------------------

    def same_place(self, table_id: int, location: str) -> set[int]:
        place = place_of(location)
        same = {claim.table_id for claim in self.claims(location) if claim.place == place}
        for other, known in self._rows("places_given_up"):
            if place_of(known) == place:
                same.add(other)
        return same | {table_id}

    def dead_files(self, table_id: int, *, horizon: int) -> pa.RecordBatchReader:
        query = self._text("vacuum_dead").format(table_id=int(table_id), horizon=int(horizon))
        return self._stream(query, DEAD_SCHEMA)

    def vector_rows(self, table_id: int) -> pa.RecordBatchReader:
        return self._of_table("vacuum_vectors", table_id, VECTORS_SCHEMA)

    def change_rows(self, table_id: int) -> pa.RecordBatchReader:
        return self._of_table("vacuum_changes", table_id, CHANGES_SCHEMA)

    def file_lives(self, table_id: int) -> pa.RecordBatchReader:
        return self._of_table("vacuum_lives", table_id, LIVES_SCHEMA)

    def encoded_paths(self, table_id: int) -> pa.RecordBatchReader:
        return self._of_table("vacuum_encoded", table_id, PATHS_SCHEMA)

    def deleted_paths(self, table_id: int) -> pa.RecordBatchReader:
        return self._of_table("vacuum_deleted", table_id, PATHS_SCHEMA)

    def absolute_files(self, *, but: int = 0) -> pa.RecordBatchReader:
        return self._of_table("elsewhere_named", but, NAMED_SCHEMA)

    def absolute_files_of(self, table_id: int) -> list[tuple[str, str | None]]:
        return NamingQueries(self._rows).absolute_files_of(table_id)

    def naming_tables(self) -> dict[int, NamingTable]:
        return named_tables(self._rows("naming_tables"))

    def _of_table(self, name: str, table_id: int, schema: pa.Schema) -> pa.RecordBatchReader:
        return self._stream(self._text(name).format(table_id=int(table_id)), schema)

    def begin_vacuum(
        self,
        vacuum_id: str,
        table_id: int,
        *,
        committer: str | None,
        host: str,
        retention_ms: int,
        kept_since: int,
    ) -> None:
        self._change(
            "vacuum_begin",
            vacuum_id=vacuum_id,
            table_id=table_id,
            committer=committer,
            host=host,
            retention_ms=retention_ms,
            kept_since=kept_since,
        )

    def end_vacuum(self, vacuum_id: str) -> None:
        self._change("vacuum_end", vacuum_id=vacuum_id)

    @contextmanager
    def vacuuming(self, table_ids: Collection[int]) -> Iterator[LockedVacuumLog]:
        with self.locked(table_ids) as log:
            yield LockedVacuumLog(log)

    def pending_deletes(self, table_id: int) -> list[PendingDelete]:
        return [
            PendingDelete(vacuum_id, batch, JournalRow(path, Kind(kind), size))
            for vacuum_id, batch, path, kind, size in self._rows(
                "vacuum_pending", table_id=table_id
            )
        ]

    def mark_deleted(self, vacuum_id: str, batch: int) -> None:
        self._change("vacuum_mark", vacuum_id=vacuum_id, batch=batch)
