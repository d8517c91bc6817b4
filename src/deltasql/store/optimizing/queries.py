"""The queue of optimize with the named queries, the same for every dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from deltasql.errors import LogFormatError
from deltasql.spec import codec
from deltasql.store.optimizing.interface import CLAIM_SECONDS, ClaimedBin, PlannedBin
from deltasql.store.rows import Row

if TYPE_CHECKING:
    from deltasql.store.interface import LockedLog
    from deltasql.store.upkeep.queries import AskedLog

_CLAIM: Final = round(CLAIM_SECONDS * 1000)


class OptimizeQueries:
    """What optimize asks of a store; a dialect says how to run a query."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query that writes, in a transaction of its own."""

    @abstractmethod
    def locked(self, table_ids: Collection[int]) -> AbstractContextManager[AskedLog]:
        """See `TxnLogWriter.locked`."""

    def queue_bins(
        self, table_id: int, plan_id: str, settings: str, bins: Sequence[PlannedBin]
    ) -> int:
        self._change("bins_sweep")
        count = 0
        # Under the table's lock: of two that plan at the same time, the second sees the first.
        with self.locked([table_id]) as log:
            taken = {
                path for (files,) in log.ask("bins_of", table_id=table_id) for path in _paths(files)
            }
            for item in bins:
                if not taken.isdisjoint(item.paths):
                    continue
                log.ask(
                    "bin_add",
                    bin_id=f"{plan_id}-{count:06d}",
                    table_id=table_id,
                    settings=settings,
                    files=orjson.dumps(item.paths).decode(),
                    size_bytes=item.size,
                    milliseconds=_CLAIM,
                )
                count += 1
        return count

    def claim_bin(self, table_id: int, settings: str, claimed_by: str) -> ClaimedBin | None:
        self._change("bins_keep", table_id=table_id, settings=settings, milliseconds=_CLAIM)
        found = self._change(
            "bin_claim",
            table_id=table_id,
            settings=settings,
            claimed_by=claimed_by,
            milliseconds=_CLAIM,
        )
        return ClaimedBin(found[0][0], _paths(found[0][1])) if found else None

    def renew_bin(self, bin_id: str, claimed_by: str) -> bool:
        return bool(
            self._change("bin_renew", bin_id=bin_id, claimed_by=claimed_by, milliseconds=_CLAIM)
        )

    def end_bin(self, bin_id: str, claimed_by: str) -> None:
        self._change("bin_done", bin_id=bin_id, claimed_by=claimed_by)

    def write_moved_rows(self, log: LockedLog, table_id: int, row_counts: Sequence[int]) -> None:
        cast("AskedLog", log).ask(
            "moved_rows_add",
            table_id=table_id,
            version=log.heads[table_id].version,
            row_counts=orjson.dumps(row_counts).decode(),
        )

    def moved_rows(
        self, table_id: int, version: int, log: LockedLog | None = None
    ) -> list[int] | None:
        ask = self._rows if log is None else cast("AskedLog", log).ask
        found = ask("moved_rows_get", table_id=table_id, version=version)
        return _counts(found[0][0]) if found else None

    def write_sorted_rows(
        self, log: LockedLog, table_id: int, row_counts: Sequence[int], row_order: bytes
    ) -> None:
        cast("AskedLog", log).ask(
            "row_order_add",
            table_id=table_id,
            version=log.heads[table_id].version,
            row_counts=orjson.dumps(row_counts).decode(),
            row_order=row_order,
        )

    def sorted_rows(
        self, table_id: int, version: int, log: LockedLog | None = None
    ) -> tuple[list[int], bytes] | None:
        ask = self._rows if log is None else cast("AskedLog", log).ask
        found = ask("row_order_get", table_id=table_id, version=version)
        return (_counts(found[0][0]), bytes(found[0][1])) if found else None

    def expire_moved_rows(self, table_id: int, *, milliseconds: int) -> None:
        self._change("moved_rows_expire", table_id=table_id, milliseconds=-milliseconds)
        self._change("row_orders_expire", table_id=table_id, milliseconds=-milliseconds)


# Any writer may change these rows by SQL of its own: they are no more than what they look like.


def _paths(text: str) -> tuple[str, ...]:
    """The files of a bin; none if that can't be read."""
    return tuple(item for item in _listed(text) if isinstance(item, str))


def _counts(text: str) -> list[int]:
    """Numbers of rows; none, which fit no commit, if they can't be read."""
    found = _listed(text)
    return found if all(type(item) is int and item >= 0 for item in found) else []


def _listed(text: str) -> list[Any]:
    try:
        found = codec.loads(text)
    except LogFormatError:
        return []
    return found if isinstance(found, list) else []
