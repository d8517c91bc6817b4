"""The pages of a table: its versions, files, schema and rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from deltasql.errors import DeltaSqlError, ValidationError
from deltasql.lake.snapshot import Snapshot
from deltasql.serve.access import Reader, Served
from deltasql.serve.api.answers import Column, FileItem, columns_of, shown_location
from deltasql.serve.api.files import page_of_files
from deltasql.serve.api.tables import Name
from deltasql.serve.pages import plots
from deltasql.serve.pages.rendering import made, page, shared
from deltasql.serve.service import Service
from deltasql.serve.sharing import Page
from deltasql.serve.tokens import Visitor
from deltasql.serve.unity.columns import spelt
from deltasql.serve.watching import behind, drifted
from deltasql.store.browsing.interface import ListedFile, ListedPartition

router = APIRouter(prefix="/tables/{name}")

_PAGE: Final = 50
_PREVIEW: Final = 20
_JOBS: Final = 5
_PARTITIONS: Final = 50
_LAST: Final = 2**63 - 1

Version = Annotated[int | None, Query(ge=0, le=_LAST)]


def _common(service: Service, visitor: Visitor, name: str, tab: str) -> dict[str, Any]:
    """What every page of a table shows."""
    listing = service.listing(visitor, name)
    return {
        "table": listing,
        "location": shown_location(listing.location),
        "late": next(iter(behind(service, visitor, name=name)), None),
        "has_drifted": name in drifted(service, visitor),
        "tab": tab,
        "jobs": service.jobs.newest(lambda table: table == name, most=_JOBS),
    }


@router.get("")
async def versions(
    request: Request, service: Served, visitor: Reader, name: Name, before: Version = None
) -> Response:
    """The versions, newest first, with what they did and where they are in the mirror."""
    path = request.url.path
    return await shared(
        request, service, visitor, lambda: _versions(service, visitor, name, path, before)
    )


def _versions(service: Service, visitor: Visitor, name: str, path: str, before: int | None) -> Page:
    common = _common(service, visitor, name, "versions")
    listing, store = common["table"], service.lake.store
    found = store.browse_versions(listing.table_id, before=before, most=_PAGE + 1)
    changes = plots.changes(store.growth(listing.table_id, before=before, most=_PAGE))
    totals = plots.totals(listing, changes) if before is None else {}
    return made(
        path,
        "versions.html",
        visitor,
        **common,
        versions=found[:_PAGE],
        changes=changes,
        following=found[_PAGE - 1].record.version if len(found) > _PAGE else None,
        before=before,
        files_line=plots.line({key: files for key, (files, _) in totals.items()}),
        bytes_line=plots.line({key: size for key, (_, size) in totals.items()}),
        width=plots.WIDTH,
        height=plots.HEIGHT,
    )


@router.get("/files")
async def files(
    request: Request,
    service: Served,
    visitor: Reader,
    name: Name,
    where: Annotated[str, Query(max_length=2000)] = "",
    after: Annotated[str, Query(max_length=8192)] = "",
    version: Version = None,
) -> Response:
    """Live files, those that may hold matching rows, page by page."""
    path = request.url.path
    return await shared(
        request,
        service,
        visitor,
        lambda: _files(service, visitor, name, path, where=where, after=after, version=version),
    )


def _files(
    service: Service,
    visitor: Visitor,
    name: str,
    path: str,
    *,
    where: str,
    after: str,
    version: int | None,
) -> Page:
    common = _common(service, visitor, name, "files")
    listing = common["table"]
    at = service.table(visitor, name).snapshot(
        version=listing.version if version is None else version
    )
    found: list[ListedFile] = []
    has_more, problem = False, None
    try:
        found, has_more = page_of_files(
            service.lake,
            listing.table_id,
            at,
            where=where.strip() or None,
            after=after,
            most=_PAGE,
        )
    except ValidationError as error:
        problem = error
    return made(
        path,
        "files.html",
        visitor,
        200 if problem is None else 422,
        **common,
        files=[FileItem.of(item) for item in found],
        following=found[-1].path if has_more else None,
        where=where,
        after=after,
        version=at.version,
        problem=problem,
    )


@router.get("/partitions")
async def partitions(request: Request, service: Served, visitor: Reader, name: Name) -> Response:
    """The partitions by size."""
    path = request.url.path
    return await shared(
        request, service, visitor, lambda: _partitions(service, visitor, name, path)
    )


def _partitions(service: Service, visitor: Visitor, name: str, path: str) -> Page:
    common = _common(service, visitor, name, "partitions")
    listing = common["table"]
    at = service.table(visitor, name).snapshot(version=listing.version)
    columns = at.metadata.partition_columns
    names = {item.physical_name: item.name for item in at.state.schema.fields}
    found: list[ListedPartition] = []
    count = 0
    if columns:
        found, count = service.lake.store.browse_partitions(listing.table_id, most=_PARTITIONS)
    return made(
        path,
        "partitions.html",
        visitor,
        **common,
        columns=columns,
        count=count,
        partitions=[plots.partition(item, names, columns) for item in found],
        most_files=max((item.files for item in found), default=1),
        most_bytes=max((item.size_bytes for item in found), default=1),
    )


@router.get("/schema")
def schema(
    request: Request,
    service: Served,
    visitor: Reader,
    name: Name,
    version: Version = None,
    other: Version = None,
) -> Response:
    """The schema at a version, and what differs from another."""
    common = _common(service, visitor, name, "schema")
    table = service.table(visitor, name)
    newest = common["table"].version
    at = table.snapshot(version=newest if version is None else version)
    before = None if other is None else table.snapshot(version=other)
    return page(
        request,
        "schema.html",
        visitor,
        **common,
        at=at,
        other=other,
        columns=list(_compared(at, before)),
        partitions=set(at.metadata.partition_columns),
        properties=sorted(at.properties.items()),
        features=sorted(
            {*(at.protocol.reader_features or ()), *(at.protocol.writer_features or ())}
        ),
    )


def _compared(at: Snapshot, before: Snapshot | None) -> Iterator[tuple[str, Column, Column | None]]:
    """Each column with what happened to it since the other version: "", new, changed or gone."""
    new = _spelt_columns(at)
    if before is None:
        yield from (("", column, None) for column in new)
        return
    old = {column.name: column for column in _spelt_columns(before)}
    for column in new:
        was = old.pop(column.name, None)
        yield ("new" if was is None else "changed" if was != column else "", column, was)
    yield from (("gone", column, None) for column in old.values())


def _spelt_columns(at: Snapshot) -> list[Column]:
    """The columns with their types as SQL spells them."""
    return [
        Column(field["name"], spelt(field["type"]), field["nullable"])
        for field in json.loads(at.metadata.schema_string)["fields"]
    ]


@router.get("/rows")
def rows(
    request: Request, service: Served, visitor: Reader, name: Name, version: Version = None
) -> Response:
    """The first rows of a version."""
    common = _common(service, visitor, name, "rows")
    at = service.table(visitor, name).snapshot(
        version=common["table"].version if version is None else version
    )
    found, problem = [], None
    try:
        found = list(_first(at))
    except DeltaSqlError as error:
        problem = error
    return page(
        request,
        "rows.html",
        visitor,
        **common,
        version=at.version,
        columns=columns_of(at),
        rows=found,
        problem=problem,
        most=_PREVIEW,
    )


def _first(at: Snapshot) -> Iterator[tuple[Any, ...]]:
    left = _PREVIEW
    for batch in at.scan().to_batches():
        part = batch.slice(0, left)
        yield from zip(*(_values(column) for column in part.columns), strict=True)
        left -= part.num_rows
        if left <= 0:
            return


def _values(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        # Years beyond 9999 and nanoseconds don't fit into a Python datetime.
        return [None if not item.is_valid else str(item) for item in column]
