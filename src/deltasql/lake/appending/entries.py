"""What a caller hands to an appender, and how it learns the outcome."""

from __future__ import annotations

import copy
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from deltasql.errors import DeltaSqlError
from deltasql.spec.actions import Metadata, Txn


class Receipt(Future[int]):
    """The version that rows become, or why they don't; it remembers whether anybody asked."""

    was_asked = False

    def result(self, timeout: float | None = None) -> int:
        """The version, once the rows are durable."""
        try:
            return super().result(timeout)
        finally:
            self.was_asked = self.done()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why the rows were not committed; None if they were."""
        try:
            return super().exception(timeout)
        finally:
            self.was_asked = self.done()


# Not frozen: rows are fitted again if the table's schema changes while they wait.
@dataclass(slots=True)
class Entry:
    """The rows of one call; `fitted` is how a table with that `metadata` takes them."""

    data: pa.Table
    fitted: pa.Table
    metadata: Metadata
    txn: Txn | None
    receipt: Receipt
    since: float
    size: int
    # The thread that is blocked until the rows are durable, if any.
    waiter: int | None

    @property
    def app_id(self) -> str | None:
        """The application whose transaction this is."""
        return None if self.txn is None else self.txn.app_id

    def fail(self, error: BaseException) -> None:
        """Tell the caller, with its own copy of the error: each thread adds its own traceback."""
        if self.receipt.done():
            return
        own = copy.copy(error) if isinstance(error, DeltaSqlError) else error
        if own is not error:
            own.__cause__ = error
        self.receipt.set_exception(own)
