"""What stores inside our own process have in common: writers take turns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from deltasql.errors import ValidationError
from deltasql.log.pruning.ranges import Ranges
from deltasql.store import range_sql
from deltasql.store.browsing.queries import BrowseQueries
from deltasql.store.checking.queries import TrustQueries
from deltasql.store.checking.rebuilding import EmbeddedRebuilding
from deltasql.store.claims import (
    NO_SOURCES,
    Ask,
    ClaimQueries,
    Sources,
    hold_sources,
    inherit_sources,
    take_place,
)
from deltasql.store.embedded import committing
from deltasql.store.embedded.committing import Draft, EmbeddedLockedLog, Session
from deltasql.store.embedded.history import EmbeddedHistory
from deltasql.store.embedded.reading import QueryReader
from deltasql.store.expiring.expired import unexpired
from deltasql.store.interface import Head, NameTaken, Outcome, Proposal
from deltasql.store.mirroring.queries import MirrorQueries
from deltasql.store.rows import FILES_SCHEMA, CommitRows, Row
from deltasql.store.upkeep.queries import UpkeepQueries

# DuckDB refuses parameters that a statement does not name.
_KEPT = ("table_id", "token", "newest_version", "files", "bytes", "milliseconds", "due_version",
         "actions_since")  # fmt: skip
_MARKED = ("table_id", "first_version", "last_version", "interval", "due")


class EmbeddedStore(
    QueryReader,
    MirrorQueries,
    EmbeddedHistory,
    TrustQueries,
    EmbeddedRebuilding,
    ClaimQueries,
    UpkeepQueries,
    BrowseQueries,
):
    """A log store whose commits queue for the whole database.

    It can't provide `locks_tables_apart`: a `locked` block holds up the writers of every table, not
    only of its own (docs/stores.md). `sql` holds the queries of its `dialect`.
    """

    locks_tables_apart = False
    commits_arrive_late = False
    sql: ClassVar[Mapping[str, str]]

    @abstractmethod
    def _writing(self, doing: str) -> AbstractContextManager[Session]:
        """The writer's connection, in turn and inside a transaction that commits at the end."""

    @abstractmethod
    def _prepare(self, rows: CommitRows) -> Any:
        """Rows in the form that the session writes."""

    def files(
        self,
        table_id: int,
        version: int,
        *,
        partition_keys: Sequence[int] | None = None,
        ranges: Ranges | None = None,
    ) -> pa.RecordBatchReader:
        query = self.sql["files_at"].format(
            table_id=int(table_id),
            version=int(version),
            filter=range_sql.file_filter(partition_keys, ranges, self.dialect),
        )
        return unexpired(self._stream(query, FILES_SCHEMA), version)

    def _text(self, name: str) -> str:
        return self.sql[name]

    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        with self._writing("mirroring") as session:
            return session.rows(name, **parameters)

    def _record_json(self, **parameters: Any) -> bool:
        kept = {key: parameters[key] for key in _KEPT}
        marked = {key: parameters[key] for key in _MARKED}
        with self._writing("mirroring") as session:
            if not session.rows("lease_keep_totals", **kept):
                return False
            return bool(session.rows("mirror_mark_json", **marked))

    @contextmanager
    def _placing(self, doing: str) -> Iterator[Ask]:
        with self._writing(doing) as session:
            yield session.rows

    def commit(self, proposal: Proposal, *, is_retry: bool = False) -> Outcome:
        draft = Draft(proposal, self._prepare(proposal.rows))
        with self._writing("committing") as session:
            return committing.write(session, draft, is_retry=is_retry)

    @contextmanager
    def locked(
        self, table_ids: Collection[int], *, drafts: Sequence[Proposal] = ()
    ) -> Iterator[EmbeddedLockedLog]:
        ready = [Draft(proposal, self._prepare(proposal.rows)) for proposal in drafts]
        with self._writing("committing") as session:
            found = session.rows("heads_get", table_ids=self._table_ids(table_ids))
            heads = {row[0]: Head(*row) for row in sorted(found)}
            log = EmbeddedLockedLog(session, heads, ready)
            yield log
            if log.failure is not None:
                raise log.failure

    def create_table(
        self,
        name: str,
        location: str,
        proposal: Proposal,
        *,
        is_retry: bool = False,
        sources: Sources = NO_SOURCES,
    ) -> int | NameTaken:
        if len(proposal.rows.metadata) != 1 or len(proposal.rows.protocol) != 1:
            raise ValidationError(
                f"table {name!r} can't be created without metadata and protocol",
                cause="version 0 defines the table",
                remedy="put one metaData and one protocol action into the first commit",
            )
        (metadata,), (protocol,) = proposal.rows.metadata, proposal.rows.protocol
        draft = Draft(proposal, self._prepare(proposal.rows))
        with self._writing("creating a table") as session:
            if is_retry:
                before = session.rows("created_find", commit_id=proposal.commit_id)
                if before:
                    return int(before[0][0])
            if session.rows("table_by_name", name=name):
                return NameTaken()
            hold_sources(session.rows, sources)
            ((table_id,),) = session.rows(
                "table_create",
                name=name,
                location=location,
                protocol_min_reader=protocol.min_reader_version,
                protocol_min_writer=protocol.min_writer_version,
                properties=metadata.table_properties,
            )
            take_place(session.rows, location, table_id=table_id)
            inherit_sources(session.rows, sources, table_id=table_id)
            now = committing.now_ms()
            session.rows("head_create", table_id=table_id, ict=now)
            committing.write_version(session, draft, table_id=table_id, version=0, ict=now)
            return int(table_id)

    def rename_table(self, table_id: int, name: str) -> bool | NameTaken:
        with self._writing("renaming a table") as session:
            taken = session.rows("table_by_name", name=name)
            if taken:
                return True if taken[0][0] == table_id else NameTaken()
            return bool(session.rows("table_rename", table_id=table_id, name=name))

    def drop_table(self, table_id: int) -> bool:
        with self._writing("dropping a table") as session:
            if not session.rows("table_drop", table_id=table_id):
                return False
            # Without a head, nothing can be committed any more.
            session.rows("head_drop", table_id=table_id)
            return True

    def purge_table(self, table_id: int) -> None:
        with self._writing("purging a table") as session:
            for name in sorted(name for name in self.sql if name.startswith("purge_")):
                session.rows(name, table_id=table_id)
