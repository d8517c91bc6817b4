"""What every request shares: the lake, the tokens, the jobs, the worker."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from deltasql.errors import TableNotFoundError
from deltasql.lake.catalog import Lake
from deltasql.lake.table import Table
from deltasql.serve.jobs import Jobs
from deltasql.serve.sharing import Page, Shared
from deltasql.serve.tokens import TokenFile, Visitor
from deltasql.serve.unity.vending import Vending
from deltasql.store.browsing.interface import TableListing


@dataclass(slots=True)
class Service:
    """The parts of a running service; `worker` is None if it runs without one."""

    lake: Lake
    jobs: Jobs
    vend: Vending
    tokens: TokenFile | None = None
    has_tls: bool = False
    worker: threading.Thread | None = None
    wants_worker: bool = False
    started: float = field(default_factory=time.time)
    pages: Shared[Page] = field(default_factory=Shared)

    def table(self, visitor: Visitor, name: str) -> Table:
        """A table that the visitor may see; to them, others don't exist."""
        if not visitor.sees(name):
            raise _missing(name)
        try:
            return self.lake.table(name)
        except TableNotFoundError:
            # The lake's own words suggest a name, which the visitor may not know.
            raise _missing(name) from None

    def listing(self, visitor: Visitor, name: str) -> TableListing:
        """A table with its sums."""
        found = self.lake.store.browse_table(name) if visitor.sees(name) else None
        if found is None:
            raise _missing(name)
        return found

    def listings(
        self, visitor: Visitor, *, search: str = "", after: str = "", most: int = 100
    ) -> list[TableListing]:
        """Tables after a name that the visitor may see, by name."""
        found = self.lake.store.browse_tables(
            search=search, after=after, schemas=visitor.schemas, most=most
        )
        return [item for item in found if visitor.sees(item.name)]

    def checks(self) -> dict[str, bool]:
        """Whether the database answers, and whether the worker lives."""
        try:
            self.lake.store.clock_ms()
            has_database = True
        except Exception:  # noqa: BLE001 - whatever it is, the service is not ready
            has_database = False
        found = {"database": has_database}
        if self.wants_worker:
            found["worker"] = self.worker is not None and self.worker.is_alive()
        return found


def _missing(name: str) -> TableNotFoundError:
    return TableNotFoundError.named(
        f"{name:.255}",
        cause="it was never created, or was dropped or renamed, or you may not see it",
    )


async def service_of(request: Request) -> Service:
    """The service that a request belongs to."""
    found: Any = request.app.state.service
    assert isinstance(found, Service)
    return found
