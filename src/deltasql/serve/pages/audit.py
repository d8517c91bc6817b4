"""Who committed what: the audit page, and a transaction's page."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response

from deltasql.log.timestamps import to_ms
from deltasql.serve.access import Reader, Served
from deltasql.serve.api.lake import Place, audit_page, place_of, transaction_versions
from deltasql.serve.pages.rendering import made, page, shared
from deltasql.serve.service import Service
from deltasql.serve.sharing import Page
from deltasql.serve.tokens import Visitor

router = APIRouter()

_PAGE: Final = 100
_LAST: Final = 2**53


@router.get("/audit")
async def audit(
    request: Request,
    service: Served,
    visitor: Reader,
    start: Annotated[str, Query(alias="from", max_length=10)] = "",
    end: Annotated[str, Query(alias="to", max_length=10)] = "",
    after: Place | None = None,
) -> Response:
    """Versions of all tables, newest first, of some days."""
    path = request.url.path
    return await shared(
        request, service, visitor, lambda: _audit(service, visitor, path, (start, end), after)
    )


def _audit(
    service: Service, visitor: Visitor, path: str, days: tuple[str, str], after: str | None
) -> Page:
    start, end = days
    first, last = _day(start), _day(end)
    stop = None if last is None else last + 86_400_000
    found = audit_page(service, visitor, start=first, stop=stop, after=after, most=_PAGE + 1)
    return made(
        path,
        "audit.html",
        visitor,
        entries=found[:_PAGE],
        following=place_of(found[_PAGE - 1][1]) if len(found) > _PAGE else None,
        start=start if first is not None else "",
        end=end if last is not None else "",
        after=after,
    )


def _day(text: str) -> int | None:
    """The first millisecond of a day in UTC; an invalid day is no bound."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return to_ms(datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(0))


@router.get("/transactions/{transaction_id}")
def transaction(
    request: Request,
    service: Served,
    visitor: Reader,
    transaction_id: Annotated[str, Path(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")],
    at: Annotated[int | None, Query(ge=0, le=_LAST)] = None,
) -> Response:
    """Which versions of which tables moved together."""
    found = transaction_versions(service, visitor, transaction_id, at=at)
    return page(
        request,
        "transaction.html",
        visitor,
        transaction_id=transaction_id,
        entries=found,
    )
