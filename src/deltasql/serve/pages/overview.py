"""The first page: the lake in numbers, what needs attention, the tables, who is at work."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from deltasql.serve.access import Reader, Served
from deltasql.serve.pages.plots import HEIGHT, WIDTH, bars
from deltasql.serve.pages.rendering import made, shared
from deltasql.serve.service import Service
from deltasql.serve.sharing import Page
from deltasql.serve.tokens import Visitor
from deltasql.serve.watching import behind, drifted, lag_seconds

router = APIRouter()

_BUCKET: Final = 30 * 60 * 1000
_BARS: Final = 48
_PAGE: Final = 50
_LISTED: Final = 20


@router.get("/")
async def overview(
    request: Request,
    service: Served,
    visitor: Reader,
    search: Annotated[str, Query(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")] = "",
    after: Annotated[str, Query(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")] = "",
) -> Response:
    """The overview, one for all who look at it at the same time with the same rights."""
    return await shared(
        request, service, visitor, lambda: _overview(service, visitor, search, after)
    )


def _overview(service: Service, visitor: Visitor, search: str, after: str) -> Page:
    store = service.lake.store
    now = store.clock_ms()
    tables = service.listings(visitor, search=search, after=after, most=_PAGE + 1)
    late = behind(service, visitor)
    waiting = [item for item in late if not item.is_paused]
    others = sorted(drifted(service, visitor) - {item.name for item in waiting})
    start = now - now % _BUCKET - (_BARS - 1) * _BUCKET
    is_whole = visitor.schemas is None
    activity = store.activity(start=start, stop=now + _BUCKET, bucket=_BUCKET) if is_whole else {}
    sessions = [item for item in service.lake.sessions() if item.is_alive] if is_whole else []
    return made(
        "/",
        "overview.html",
        visitor,
        summary=store.summary() if is_whole else None,
        late=waiting[:_LISTED],
        late_names={item.name for item in late},
        trouble=dict.fromkeys(others, "drift")
        | {item.name: "failed" for item in waiting if item.is_failed},
        drifted=others[:_LISTED],
        troubled=len(waiting) + len(others),
        listed=len(waiting[:_LISTED]) + len(others[:_LISTED]),
        backlog=sum(item.versions for item in waiting),
        lag=max((lag_seconds(item, now) for item in waiting), default=0.0),
        paused=sum(item.is_paused for item in late),
        now=now,
        bars=bars(activity, start=start, bucket=_BUCKET, number=_BARS),
        commits=sum(activity.values()),
        busiest=max(activity.values(), default=0),
        width=WIDTH,
        height=HEIGHT,
        tables=tables[:_PAGE],
        following=tables[_PAGE - 1].name if len(tables) > _PAGE else None,
        search=search,
        after=after,
        sessions=sessions[:_LISTED],
        worker=service.checks().get("worker"),
    )
