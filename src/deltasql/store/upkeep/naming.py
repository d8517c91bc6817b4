"""Which tables name files by absolute paths: asked in the transaction that decides on files."""

from __future__ import annotations

from typing import Any

from deltasql.store.claims import Ask
from deltasql.store.embedded.reading import NO_LIMIT, to_commit
from deltasql.store.interface import CommitRecord
from deltasql.store.upkeep.interface import NamingTable


class NamingQueries:
    """`NamingLog` on named queries."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def naming_tables(self) -> dict[int, NamingTable]:
        return named_tables(self._ask("naming_tables"))

    def absolute_files_of(self, table_id: int) -> list[tuple[str, str | None]]:
        return [(path, vector) for path, vector in self._ask("absolute_of", table_id=table_id)]

    def commits_of(self, table_id: int, *, after: int) -> list[CommitRecord]:
        found = self._ask("commits_between", table_id=table_id, after=after, upto=NO_LIMIT)
        return [to_commit(row) for row in found]

    def holders(self, table_id: int) -> list[tuple[int, str]]:
        return [(version, reason) for version, reason in self._ask("holders", table_id=table_id)]


def named_tables(rows: list[tuple[Any, ...]]) -> dict[int, NamingTable]:
    """The answer of `NamingLog.naming_tables`."""
    return {
        table_id: NamingTable(location, version, bool(is_dropped))
        for table_id, location, version, is_dropped in rows
    }
