"""Adoption as users see it: `lake.adopt` and `lake.abandon_adoption`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, overload

from deltasql.adoption import adopting
from deltasql.adoption.abandoning import AbandonedAdoption, abandon
from deltasql.adoption.adopting import AdoptionReport, AdoptionSettings, survey
from deltasql.adoption.cross_check import CrossCheck
from deltasql.adoption.loading.history import Progress
from deltasql.adoption.unmirrored import (
    Unmirrored,
    check_choice,
    missing_versions,
    not_in_the_log,
    write_missing,
)
from deltasql.errors import DatabaseError, TableExistsError
from deltasql.lake import locations, new_table
from deltasql.lake.table import Table
from deltasql.lake.upkeep import sources
from deltasql.mirror.engine import Target
from deltasql.places import place_of
from deltasql.store.interface import TableRecord

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

__all__ = [
    "AbandonedAdoption",
    "AdoptionReport",
    "Choices",
    "LakeAdoptions",
    "Progress",
    "Unmirrored",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the user decides; see `Lake.adopt`."""

    fence: bool
    validate: bool
    unmirrored: Unmirrored
    allowed: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_choice(self.unmirrored)


class LakeAdoptions:
    """How a lake takes in tables that others wrote."""

    __slots__ = ()

    @overload
    def adopt(
        self,
        location: str | os.PathLike[str],
        name: str,
        *,
        dry_run: Literal[True],
        fence: bool = ...,
        validate: bool = ...,
        unmirrored: Unmirrored = ...,
        allow: Sequence[str] = ...,
        progress: Callable[[Progress], None] | None = ...,
    ) -> AdoptionReport: ...

    @overload
    def adopt(
        self,
        location: str | os.PathLike[str],
        name: str,
        *,
        dry_run: Literal[False] = ...,
        fence: bool = ...,
        validate: bool = ...,
        unmirrored: Unmirrored = ...,
        allow: Sequence[str] = ...,
        progress: Callable[[Progress], None] | None = ...,
    ) -> Table: ...

    @overload
    def adopt(
        self,
        location: str | os.PathLike[str],
        name: str,
        dry_run: bool,  # noqa: FBT001 - the public name
        fence: bool = ...,  # noqa: FBT001 - the public name
        *,
        validate: bool = ...,
        unmirrored: Unmirrored = ...,
        allow: Sequence[str] = ...,
        progress: Callable[[Progress], None] | None = ...,
    ) -> Table | AdoptionReport: ...

    def adopt(
        self,
        location: str | os.PathLike[str],
        name: str,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - the public name
        fence: bool = True,  # noqa: FBT001, FBT002 - the public name
        *,
        validate: bool = True,
        unmirrored: Unmirrored = "refuse",
        allow: Sequence[str] = (),
        progress: Callable[[Progress], None] | None = None,
    ) -> Table | AdoptionReport:
        """Take in the Delta table at a location, with its whole history, where it is.

        One commit keeps other writers out; it is left out with `fence=False`, and where deltasql
        can't write the table safely (`table.read_only`). A dry run writes nothing and returns a
        report. `progress` is called after each version; `validate=False` skips the comparison with
        another reader. If a dropped table has commits in SQL that the log lacks, `unmirrored`
        decides about them: `refuse`, `write` or `discard`. `allow` names folders outside the table
        that files may be read from, as those of shallow clones are; without it a log that names
        such files is refused.
        """
        lake = cast("Lake", self)
        new_table.check_name(name)
        place = locations.check(lake, location)
        how = Choices(
            fence=fence,
            validate=validate,
            unmirrored=unmirrored,
            allowed=sources.places(place, allow),
        )
        if dry_run:
            return rehearse(lake, place, how, progress)
        return adopt(lake, place, name, how, progress)

    def abandon_adoption(self, location: str | os.PathLike[str]) -> AbandonedAdoption:
        """Give up an unfinished adoption: its rows are deleted and its place becomes free.

        The Delta table and its files stay as they are. Raises `TableNotFoundError` if no adoption
        was begun. An adoption under way in a live process is not given up.
        """
        lake = cast("Lake", self)
        objects = lake.objects(locations.check(lake, location))
        _must_be_allowed(lake)
        return abandon(lake.engine, lake.store, objects)


def rehearse(
    lake: Lake, location: str, how: Choices, progress: Callable[[Progress], None] | None
) -> AdoptionReport:
    """A dry run."""
    _lose_nothing(lake, location, how.unmirrored, dry_run=True)
    return survey(lake.objects(location), fence=how.fence, allowed=how.allowed, progress=progress)


def adopt(
    lake: Lake,
    location: str,
    name: str,
    how: Choices,
    progress: Callable[[Progress], None] | None,
) -> Table:
    """Adopt a table; see `Lake.adopt`."""
    _must_be_allowed(lake)
    objects = lake.objects(location)
    replaced = _replaced(lake, name, objects.location)
    _lose_nothing(lake, location, how.unmirrored)
    settings = AdoptionSettings(
        fence=how.fence,
        committer=lake.committer,
        engine_info=lake.engine_info,
        replaces=replaced,
        allowed=how.allowed,
        progress=progress,
        cross_check=CrossCheck(lake.store, objects, lake.reader_options) if how.validate else None,
    )
    table_id = adopting.adopt(lake.engine, lake.store, objects, name, settings)
    # Don't look it up again: the table is adopted, whatever fails now.
    return Table(lake, TableRecord(table_id, name, objects.location))


def _must_be_allowed(lake: Lake) -> None:
    """Raise `DatabaseError` if we lack the rights to adopt, which include deleting rows."""
    if not lake.store.may_purge():
        raise DatabaseError(
            "permission denied: this role can't adopt tables",
            cause="it may not delete rows of the log, which continuing an adoption requires; "
            "nothing was written",
            remedy="adopt as the owner of the log's tables",
        )


def _lose_nothing(
    lake: Lake, location: str, unmirrored: Unmirrored, *, dry_run: bool = False
) -> None:
    """Deal with versions that only SQL has, of tables that were at this location."""
    if unmirrored == "discard":
        return
    objects = lake.objects(location)
    place = place_of(objects.location)
    for claim in lake.store.claims(objects.location):
        # No other claim gives way to an adoption.
        is_left = claim.status == "dropped" or (claim.status == "live" and claim.is_read_only)
        if claim.place != place or claim.is_purging or not is_left:
            continue
        missing = missing_versions(lake.store, objects, claim.table_id)
        target = Target(claim.table_id, claim.name, claim.location)
        if missing and unmirrored == "refuse":
            raise not_in_the_log(target, missing)
        if missing and not dry_run:
            write_missing(lake.engine, lake.store, objects, target, missing)


def _replaced(lake: Lake, name: str, location: str) -> int | None:
    """The table that a new adoption replaces: the same one, no longer ours."""
    place = place_of(location)
    for claim in lake.store.claims(location):
        is_ours = claim.status == "live" and not claim.is_read_only
        if claim.place == place and is_ours and claim.name != name:
            raise TableExistsError(
                f"the table at {location} is already in the lake",
                cause=f"it is {claim.name}",
                remedy=f"use {claim.name}, or release it first",
            )
    known = lake.store.table(name)
    if known is None:
        return None
    is_released = lake.store.read_only_reason(known.table_id) is not None
    if place_of(known.location) != place or not is_released:
        raise TableExistsError(
            f"there is already a table {name}",
            remedy="choose another name, or drop it or release it first",
        )
    return known.table_id
