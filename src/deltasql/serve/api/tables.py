"""Tables over HTTP: lists, snapshots, files, history, and how the mirror stands."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BeforeValidator

from deltasql.serve.access import Reader, Served
from deltasql.serve.api.answers import (
    FileItem,
    FilePage,
    HistoryPage,
    MirroredVersion,
    SnapshotItem,
    TableItem,
    TablePage,
)
from deltasql.serve.api.files import as_arrow, page_of_files

ARROW: Final = "application/vnd.apache.arrow.stream"
# JSON is for people, Arrow for programs.
_MOST_JSON: Final = 1_000
_MOST_ARROW: Final = 100_000
_NO_CONTROL: Final = r"^[^\x00-\x1f\x7f]*$"
_LAST: Final = 2**63 - 1
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")

router = APIRouter(prefix="/api/v1/tables", tags=["tables"])

Name = Annotated[str, Path(max_length=255, pattern=_NO_CONTROL, description="Name of the table")]
Text = Annotated[str, Query(max_length=512, pattern=_NO_CONTROL)]
Version = Annotated[int | None, Query(ge=0, le=_LAST)]
Limit = Annotated[int, Query(ge=1, le=_MOST_JSON)]


def _written(value: object) -> object:
    """A time must be written out: a bare number might be seconds or milliseconds."""
    if not isinstance(value, str) or not _DAY.match(value):
        raise ValueError("write a time as 2026-11-01T12:00:00Z")
    return value


Moment = Annotated[datetime, BeforeValidator(_written)]


@router.get("")
def tables(
    service: Served, visitor: Reader, search: Text = "", after: Text = "", limit: Limit = 100
) -> TablePage:
    """Tables by name, those that hold `search` in it."""
    found = service.listings(visitor, search=search, after=after, most=limit + 1)
    page = found[:limit]
    return TablePage(
        [TableItem.of(item) for item in page], page[-1].name if len(found) > limit else None
    )


@router.get("/{name}")
def table(service: Served, visitor: Reader, name: Name) -> TableItem:
    """A table."""
    return TableItem.of(service.listing(visitor, name))


@router.get("/{name}/snapshot")
def snapshot(
    service: Served,
    visitor: Reader,
    name: Name,
    version: Version = None,
    timestamp: Moment | None = None,
) -> SnapshotItem:
    """The table as it is, at a version, or at a time."""
    found = service.table(visitor, name)
    return SnapshotItem.of(name, found.snapshot(version=version, timestamp=timestamp))


@router.get("/{name}/files", response_model=FilePage, responses={200: {"content": {ARROW: {}}}})
def files(
    service: Served,
    visitor: Reader,
    request: Request,
    name: Name,
    where: Annotated[str | None, Query(max_length=8192)] = None,
    version: Version = None,
    after: Annotated[str, Query(max_length=8192)] = "",
    limit: Annotated[int, Query(ge=1, le=_MOST_ARROW)] = 100,
) -> Any:
    """Live files, or those that may hold rows which satisfy `where`, page by page.

    Pass the version of the first page for the next ones. With `Accept:
    application/vnd.apache.arrow.stream` the answer is Arrow's IPC stream, up to 100,000 files; a
    page of JSON has at most 1,000.
    """
    is_arrow = ARROW in request.headers.get("accept", "")
    most = limit if is_arrow else min(limit, _MOST_JSON)
    found = service.table(visitor, name)
    at = found.snapshot(version=version)
    page, has_more = page_of_files(
        service.lake, found.table_id, at, where=where, after=after, most=most
    )
    following = page[-1].path if has_more else None
    if is_arrow:
        headers = {"X-Deltasql-Version": str(at.version)}
        # Not every path can be a header; the stream's own metadata always has it.
        if following is not None and following.isascii() and following.isprintable():
            headers["X-Deltasql-Next"] = following
        return Response(as_arrow(page, following), media_type=ARROW, headers=headers)
    return FilePage(at.version, [FileItem.of(item) for item in page], following)


@router.get("/{name}/history")
def history(
    service: Served, visitor: Reader, name: Name, before: Version = None, limit: Limit = 50
) -> HistoryPage:
    """Versions, newest first, with their state in the mirror."""
    listing = service.listing(visitor, name)
    found = service.lake.store.browse_versions(listing.table_id, before=before, most=limit + 1)
    page = found[:limit]
    return HistoryPage(
        [MirroredVersion.of(item) for item in page],
        page[-1].record.version if len(found) > limit else None,
    )


@router.get("/{name}/mirror")
def mirror(service: Served, visitor: Reader, name: Name) -> dict[str, Any]:
    """How far the table's mirror is."""
    return asdict(service.table(visitor, name).mirror.status())
