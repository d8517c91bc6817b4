"""The read half of Unity Catalog's REST API: the lake's tables by name, at their mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from deltasql.errors import TableNotFoundError
from deltasql.lake.table import Table
from deltasql.serve.access import Reader, Served
from deltasql.serve.bodies import ReadersBody, in_openapi, parsed
from deltasql.serve.problems import Refused
from deltasql.serve.service import Service
from deltasql.serve.tokens import DEFAULT_SCHEMA, Visitor, schema_of
from deltasql.serve.unity.columns import columns_of
from deltasql.store.browsing.interface import TableListing

router = APIRouter(prefix="/api/2.1/unity-catalog", tags=["unity"])

CATALOG: Final = "lake"
_PAGE: Final = 100
# Clients require these, but a lake has none of them for its catalog and schemas.
_UNSAID: Final[dict[str, Any]] = {
    "properties": {},
    "storage_location": None,
    "created_at": 0,
    "created_by": None,
    "updated_at": 0,
    "updated_by": None,
    "owner": None,
}
_MOST: Final = 1_000
Text = Annotated[str, Query(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]
Results = Annotated[int, Query(ge=0, le=_MOST)]


@router.get("/catalogs")
def catalogs(visitor: Reader) -> dict[str, Any]:
    """The one catalog there is."""
    del visitor
    return {"catalogs": [_catalog()], "next_page_token": None}


@router.get("/catalogs/{name}")
def catalog(visitor: Reader, name: str) -> dict[str, Any]:
    """The catalog by its name."""
    del visitor
    _must_be_ours(name)
    return _catalog()


@router.get("/schemas")
def schemas(service: Served, visitor: Reader, catalog_name: Text) -> dict[str, Any]:
    """The schemas: what stands before the first dot of the tables' names."""
    _must_be_ours(catalog_name)
    names = sorted({schema_of(item.name) for item in _all(service, visitor)})
    return {"schemas": [_schema(name) for name in names], "next_page_token": None}


@router.get("/schemas/{full_name}")
def schema(service: Served, visitor: Reader, full_name: str) -> dict[str, Any]:
    """A schema by its name."""
    catalog_name, _, name = full_name.partition(".")
    _must_be_ours(catalog_name)
    if not any(schema_of(item.name) == name for item in _all(service, visitor)):
        raise Refused(404, f"there is no schema {name!r:.100}", remedy="list the schemas")
    return _schema(name)


@router.get("/tables")
def tables(
    service: Served,
    visitor: Reader,
    catalog_name: Text,
    schema_name: Text,
    max_results: Results = 0,
    page_token: Text = "",
) -> dict[str, Any]:
    """The tables of a schema, page by page."""
    _must_be_ours(catalog_name)
    most = max_results or _PAGE
    found: list[TableListing] = []
    following = None
    for item in _all(service, visitor, after=page_token):
        if schema_of(item.name) != schema_name or _is_shadowed(service, item.name):
            continue
        if len(found) == most:
            following = found[-1].name
            break
        found.append(item)
    told = []
    for item in found:
        # One that was dropped since it was listed is no reason to refuse the others.
        with suppress(TableNotFoundError):
            told.append(_described(service.lake.table(item.name), item))
    return {"tables": told, "next_page_token": following}


@router.get("/tables/{full_name}")
def table(service: Served, visitor: Reader, full_name: str) -> dict[str, Any]:
    """A table by its name, catalog.schema.table."""
    name = _name(full_name)
    try:
        listing = service.listing(visitor, name)
    except TableNotFoundError:
        if schema_of(name) != DEFAULT_SCHEMA:
            raise
        listing = service.listing(visitor, f"{DEFAULT_SCHEMA}.{name}")
    return _described(service.table(visitor, listing.name), listing)


class CredentialBody(BaseModel):
    """What credentials are asked for."""

    model_config = ConfigDict(extra="ignore")

    table_id: str = Field(max_length=100)
    operation: str = "READ"


@router.post("/temporary-table-credentials", openapi_extra=in_openapi(CredentialBody))
def credentials(service: Served, visitor: Reader, content: ReadersBody) -> dict[str, Any]:
    """Credentials to read a table's files; on a local disk none are needed."""
    body = parsed(CredentialBody, content)
    found = next(
        (
            item
            for item in service.lake.store.tables()
            if str(item.table_id) == body.table_id and visitor.sees(item.name)
        ),
        None,
    )
    if found is None:
        raise Refused(404, "there is no such table", remedy="ask for the table by name first")
    if body.operation != "READ":
        raise Refused(
            403,
            "credentials are for reading only",
            cause=f"{body.operation!r:.40} was asked for",
            remedy="ask for READ; write through deltasql",
        )
    return {**service.vend(found.location), "url": _uri(found.location)}


def _all(service: Service, visitor: Visitor, *, after: str = "") -> Iterator[TableListing]:
    while page := service.listings(visitor, after=after, most=_MOST):
        yield from page
        after = page[-1].name


def _is_shadowed(service: Service, name: str) -> bool:
    """Whether a table without a schema has the same name in the catalog: then that is meant."""
    schema, _, rest = name.partition(".")
    if schema != DEFAULT_SCHEMA or not rest or "." in rest:
        return False
    return service.lake.store.browse_table(rest) is not None


def _must_be_ours(name: str) -> None:
    if name != CATALOG:
        raise Refused(
            404, f"there is no catalog {name!r:.100}", remedy=f"the catalog's name is {CATALOG}"
        )


def _name(full_name: str) -> str:
    """The lake's name of a table, without Unity's catalog and default schema."""
    catalog_name, _, rest = full_name.partition(".")
    _must_be_ours(catalog_name)
    return rest.removeprefix(f"{DEFAULT_SCHEMA}.") if rest.count(".") == 1 else rest


def _catalog() -> dict[str, Any]:
    return {"name": CATALOG, "comment": "The tables of a deltasql lake", **_UNSAID}


def _schema(name: str) -> dict[str, Any]:
    names = {"name": name, "catalog_name": CATALOG, "full_name": f"{CATALOG}.{name}"}
    return {**names, "comment": None, **_UNSAID}


def _described(table: Table, listing: TableListing) -> dict[str, Any]:
    """A table as Unity describes it, at the newest version that readers of the mirror see."""
    mirrored = listing.mirrored_version
    at = table.snapshot(version=listing.version if mirrored is None else mirrored)
    # A table that was never mirrored can't be read at its location yet, so no version is named.
    told = {} if mirrored is None else {"deltasql.mirrored_version": str(mirrored)}
    schema_name = schema_of(table.name)
    name = table.name.partition(".")[2] or table.name
    return {
        "name": name,
        "catalog_name": CATALOG,
        "schema_name": schema_name,
        "full_name": f"{CATALOG}.{schema_name}.{name}",
        "table_type": "EXTERNAL",
        "data_source_format": "DELTA",
        "storage_location": _uri(listing.location),
        "columns": columns_of(at.metadata),
        "properties": {
            **at.properties,
            "deltasql.version": str(listing.version),
            **told,
        },
        "table_id": str(listing.table_id),
        "created_at": at.metadata.created_time or 0,
        "created_by": None,
        "updated_at": listing.last_ict,
        "updated_by": None,
        "comment": at.metadata.description,
    }


def _uri(location: str) -> str:
    return location if "://" in location else FilePath(location).as_uri()
