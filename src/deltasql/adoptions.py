"""Adoption as users see it: `lake.adopt`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltasql.adoption import adopting
from deltasql.adoption.adopting import AdoptionReport, AdoptionSettings, survey
from deltasql.adoption.loading import Progress
from deltasql.adoption.proving import Proof
from deltasql.errors import TableExistsError
from deltasql.places import place_of
from deltasql.store.interface import TableRecord
from deltasql.table import Table

if TYPE_CHECKING:
    from deltasql.catalog import Lake

__all__ = ["AdoptionReport", "Progress", "adopt", "survey"]


def adopt(
    lake: Lake,
    location: str,
    name: str,
    *,
    fence: bool,
    validate: bool,
    progress: Callable[[Progress], None] | None,
) -> Table:
    """Adopt a table; see `Lake.adopt`."""
    objects = lake.objects(location)
    settings = AdoptionSettings(
        fence=fence,
        committer=lake.committer,
        engine_info=lake.engine_info,
        replaces=_replaced(lake, name, objects.location),
        progress=progress,
        prove=Proof(lake.store, objects, lake.reader_options) if validate else None,
    )
    table_id = adopting.adopt(lake.engine, lake.store, objects, name, settings)
    # Not looked up again: whatever fails now, it is adopted.
    return Table(lake, TableRecord(table_id, name, objects.location))


def _replaced(lake: Lake, name: str, location: str) -> int | None:
    """The table that a new adoption takes the place of: the same one, no longer ours."""
    replaced = None
    for table in lake.tables():
        is_same = place_of(table.location) == place_of(location)
        if table.name == name:
            if not is_same or table.read_only is None:
                raise TableExistsError(
                    f"there is a table {name} already",
                    remedy="choose another name, or drop it or release it first",
                )
            replaced = table.table_id
        elif is_same and table.read_only is None:
            raise TableExistsError(
                f"the table at {location} is in the lake already",
                cause=f"it is {table.name}",
                remedy=f"use {table.name}, or release it first",
            )
    return replaced
