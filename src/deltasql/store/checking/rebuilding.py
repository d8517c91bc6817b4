"""Rebuilds the rows of a table, in one transaction that holds its head.

The bodies of its versions are the truth, and stay unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from deltasql.errors import TableNotFoundError
from deltasql.log.file_sums import FileSum, FileSums
from deltasql.store.checking.content import file_hashes
from deltasql.store.checking.interface import RebuiltHead, StoredCommit
from deltasql.store.checking.queries import commit_pages
from deltasql.store.embedded.committing import Session
from deltasql.store.embedded.reading import NO_LIMIT
from deltasql.store.history import HistoryRows
from deltasql.store.interface import Head
from deltasql.store.rows import Row

# Files become live again before the rows that say so are deleted.
_CLEAR: Final = (
    "history_trim_adds",
    "rebuild_back",
    "history_trim_dead",
    "history_trim_txns",
    "history_trim_domains",
    "history_trim_cdc",
    "history_trim_metadata",
    "history_trim_protocol",
    "trusted_drop",
)
_KEYS: Final = 20_000


class TableRebuild:
    """One rebuild; `run` runs a named query, and `write_part` writes rows."""

    def __init__(
        self,
        head: Head,
        run: Callable[..., list[Row]],
        write_part: Callable[[HistoryRows], None],
    ) -> None:
        self.head = head
        self._table_id = head.table_id
        self._run = run
        self._write_part = write_part

    def commits(self, *, after: int) -> Iterator[StoredCommit]:
        return commit_pages(self._run, self._table_id, after=after, upto=NO_LIMIT)

    def clear(self, *, after: int) -> None:
        for name in _CLEAR:
            self._run(name, table_id=self._table_id, after=after)
        self._run("purge_partitions", table_id=self._table_id)
        self._run("rebuild_partitions", table_id=self._table_id)

    def clear_files(self) -> None:
        for name in ("purge_active_files", "purge_dead_files", "purge_partitions"):
            self._run(name, table_id=self._table_id)

    def live_sums(self) -> FileSums:
        found, last = FileSum(), (b"", b"")
        while True:
            page = self._run(
                "keys_page",
                table_id=self._table_id,
                path_key=last[0],
                dv_key=last[1],
                most=_KEYS,
            )
            rows = [(bytes(row[0]), bytes(row[1]), *row[2:]) for row in page]
            found.add_many(map(file_hashes, rows))
            if len(rows) < _KEYS:
                return found.value()
            last = rows[-1][:2]

    def mend(self, commit: StoredCommit) -> None:
        self._run(
            "rebuild_version",
            table_id=self._table_id,
            version=commit.version,
            ict=commit.in_commit_timestamp,
            commit_id=commit.commit_id,
            committer=commit.committer,
            operation=commit.operation,
            operation_params=commit.operation_params,
            transaction_id=commit.transaction_id,
            is_blind_append=commit.is_blind_append,
        )

    def write(self, rows: HistoryRows) -> None:
        self._write_part(rows)

    def finish(self, head: RebuiltHead) -> None:
        self._run(
            "rebuild_head",
            table_id=self._table_id,
            version=head.version,
            last_ict=head.last_ict,
            metadata_version=head.metadata_version,
            protocol_version=head.protocol_version,
        )
        self._run(
            "rebuild_table",
            table_id=self._table_id,
            properties=head.columns.properties,
            min_reader=head.columns.min_reader,
            min_writer=head.columns.min_writer,
        )


class EmbeddedRebuilding(ABC):
    """Rebuilds in databases of our own process."""

    @abstractmethod
    def _writing(self, doing: str) -> AbstractContextManager[Session]:
        """The writer's connection, in turn and inside a transaction that commits at the end."""

    @abstractmethod
    def _prepare_history(self, rows: HistoryRows) -> Any:
        """A part in the form that the session writes."""

    @abstractmethod
    def _write_history(self, writer: Session, table_id: int, prepared: Any) -> None:
        """Write what `_prepare_history` returned, inside the writer's transaction."""

    @contextmanager
    def rebuilding(self, table_id: int) -> Iterator[TableRebuild]:
        with self._writing("rebuilding a table") as session:
            head = found_head(session.rows("head_get", table_id=table_id))

            def write_part(rows: HistoryRows) -> None:
                self._write_history(session, table_id, self._prepare_history(rows))

            yield TableRebuild(head, session.rows, write_part)


def found_head(found: list[Row]) -> Head:
    """The head that a query found, or `TableNotFoundError`."""
    if not found:
        raise TableNotFoundError(
            "there is no such table", cause="it was dropped", remedy="see lake.tables()"
        )
    return Head(*found[0][:6])
