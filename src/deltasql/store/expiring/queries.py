"""Retention with the named queries, the same for every dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from deltasql.store.checking.interface import TrustedVersion
from deltasql.store.checking.queries import trusted_values
from deltasql.store.expiring.interface import ExpirationRecord
from deltasql.store.interface import LockedLog
from deltasql.store.rows import Row
from deltasql.store.upkeep.interface import LockedQueries

# What a later action of the same kind and name replaces.
_REPLACED: Final = ("expire_txns", "expire_domains", "expire_metadata", "expire_protocol")


class _AskedLog(LockedLog, LockedQueries, Protocol):
    """A locked log that also runs named queries."""


class ExpiryQueries:
    """What retention asks of a store; a dialect says how to run a query."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query that writes, in a transaction of its own."""

    @abstractmethod
    def locked(self, table_ids: Collection[int]) -> AbstractContextManager[_AskedLog]:
        """See `TxnLogWriter.locked`."""

    def horizon(self, table_id: int, *, upto: int) -> int | None:
        ((found,),) = self._rows("expire_horizon", table_id=table_id, upto=upto)
        return None if found is None else int(found)

    def advance_horizon(
        self, first: TrustedVersion, *, committer: str | None, host: str, before: int
    ) -> bool:
        table_id, horizon = first.table_id, first.version
        # Under the lock that a pin takes: it sees the new horizon, or we see the pin.
        with self.locked([table_id]) as log:
            head = log.heads.get(table_id)
            if head is None or head.earliest_version != before or head.version < horizon:
                return False
            pins = log.ask("pins_of", table_id=table_id)
            if any(version < horizon for version, _ in pins):
                return False
            for name in _REPLACED:
                log.ask(name, table_id=table_id, horizon=horizon)
            log.ask("expire_head", table_id=table_id, horizon=horizon)
            log.ask("expire_trusted", table_id=table_id)
            log.ask("trusted_set", **trusted_values(first))
            log.ask(
                "expire_journal",
                table_id=table_id,
                horizon=horizon,
                first_version=before,
                committer=committer,
                host=host,
            )
            return True

    def drop_versions(self, table_id: int, *, most: int) -> int:
        ((oldest,),) = self._rows("expire_oldest_version", table_id=table_id)
        if oldest is None:
            return 0
        gone = self._change("expire_versions", table_id=table_id, upto=oldest + most)
        self._change("expire_status", table_id=table_id)
        return len(gone)

    def drop_files(
        self, table_id: int, *, after: int, most: int, tombstones: int
    ) -> tuple[int, int] | None:
        ((oldest,),) = self._rows("expire_oldest_removal", table_id=table_id, after=after)
        if oldest is None:
            return None
        last = oldest + most - 1
        gone = self._change(
            "expire_dead", table_id=table_id, first=oldest, last=last, tombstones=tombstones
        )
        return last, len(gone)

    def drop_changes(self, table_id: int) -> int:
        return len(self._change("expire_changes", table_id=table_id))

    def drop_deletions(self, table_id: int, *, seconds: float, most: int) -> int:
        kept = -round(seconds * 1000)
        gone = self._change("expire_deletions", table_id=table_id, kept=kept, most=most)
        if not gone:
            self._change("expire_vacuums", table_id=table_id, kept=kept)
        return len(gone)

    def end_expiration(self, table_id: int) -> None:
        self._change("expire_end", table_id=table_id)

    def expirations(self) -> list[ExpirationRecord]:
        return [ExpirationRecord(*row) for row in self._rows("expirations_all")]
