"""Places and who holds them, dropped tables, and purges that have begun.

A table holds its place from its creation, or from the start of its adoption, until it is purged.
The transaction that takes a place checks it first, and only one runs at a time: the database lets
no two tables share a place, and none lie within another.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias

import pyarrow as pa

from deltasql.errors import (
    CommitError,
    LocationTakenError,
    TableExistsError,
    TableNotFoundError,
)
from deltasql.places import overlap, place_of
from deltasql.store.rows import Row

# Runs a named query, inside its owner's transaction.
Ask: TypeAlias = Callable[..., list[Row]]
# Raises if something forbids what the transaction is about to do.
Check: TypeAlias = Callable[[Ask], None]

KNOWN_SCHEMA: Final = pa.schema([("path", pa.string()), ("deletion_vector", pa.string())])
# Tables whose files a new one names, each with the id of a pin on them, if there is one. They can't
# be dropped or vacuumed before the new table exists.
Sources: TypeAlias = Mapping[int, str | None]
NO_SOURCES: Final[Sources] = MappingProxyType({})
# No table has this id.
_NOBODY: Final = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A table that holds a place; a staged one is still being adopted."""

    table_id: int
    name: str
    location: str
    place: str
    status: Literal["live", "staged", "dropped"]
    is_read_only: bool
    is_purging: bool


@dataclass(frozen=True, slots=True)
class DroppedRecord:
    """A table that was dropped but not purged; `dropped_at` is in epoch milliseconds."""

    table_id: int
    name: str
    location: str
    dropped_at: int
    is_purging: bool
    read_only_reason: str | None


@dataclass(frozen=True, slots=True)
class PurgeRecord:
    """A purge that has begun; `keeps_files` says why the files at the location are not the table's,
    and is None if they are.
    """

    table: DroppedRecord
    keeps_files: str | None


class ClaimLog(Protocol):
    """Answers who holds a place, and begins purges."""

    def claims(self, location: str) -> list[Claim]:
        """Who holds the place of a location, one around it or one within it."""

    def held_place(self, table_id: int) -> tuple[str | None, list[Claim]]:
        """The place that a table holds, and who else holds it, one around it or one within it.

        It is empty once another table has it, and None for a table from before there were places.
        """

    def sources_at(self, location: str) -> list[str]:
        """The places outside its own that the table at a location may read from."""

    def sources_of(self, table_id: int) -> list[str]:
        """The places outside its own that a table may read from."""

    def allow_sources(self, table_id: int, sources: Collection[str], *, instead: bool) -> None:
        """Allow a table to read from more places, or from these `instead`."""

    def dropped_tables(self) -> list[DroppedRecord]:
        """Tables that were dropped but not purged, by name."""

    def may_commit(self) -> bool:
        """Whether the database lets us commit."""

    def may_purge(self) -> bool:
        """Whether the database lets us delete the rows of a table."""

    def begin_purge(
        self, table_id: int, *, drop: bool = False, check: Check | None = None
    ) -> PurgeRecord | None:
        """Record that a dropped table is being purged; None if it does not exist, or is live.

        With `drop`, a live table is dropped in the same transaction. From then on, nobody can adopt
        what is at its place. If files are to be deleted, the transaction calls `check`: if that
        raises, nothing has happened, and nobody can change what it allowed before the purge has
        begun.
        """

    def undrop_table(self, table_id: int, name: str) -> bool:
        """Restore a dropped table at its newest version, under a name that is free.

        Returns False if there is no such dropped table, or its purge has begun; raises
        `LocationTakenError` if another table has taken its place, and `TableExistsError` if one has
        the name.
        """

    def role(self) -> str | None:
        """The user that the database takes us for; None if it has no users."""

    def known_files(self, table_id: int) -> pa.RecordBatchReader:
        """Path and deletion vector (JSON) of everything that any version of a table names, in
        bounded memory; changes have no vector. A path may occur more than once.
        """


class ClaimQueries:
    """The same with named queries; a dialect says how transactions take turns."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _text(self, name: str) -> str:
        """The text of a named query."""

    @abstractmethod
    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        """The rows of a query without parameters."""

    @abstractmethod
    def _placing(self, doing: str) -> AbstractContextManager[Ask]:
        """A transaction in which nobody else can take a place; it commits at the end."""

    def claims(self, location: str) -> list[Claim]:
        return overlapping(self._rows, place_of(location), table_id=_NOBODY)

    def held_place(self, table_id: int) -> tuple[str | None, list[Claim]]:
        for (place,) in self._rows("place_held", table_id=table_id):
            others = overlapping(self._rows, place, table_id=table_id) if place else []
            return place, others
        return None, []

    def sources_at(self, location: str) -> list[str]:
        found = self._rows("sources_at", place=place_of(location), location=location)
        return [source for (source,) in found]

    def sources_of(self, table_id: int) -> list[str]:
        return [source for (source,) in self._rows("sources_of", table_id=table_id)]

    def allow_sources(self, table_id: int, sources: Collection[str], *, instead: bool) -> None:
        with self._placing("naming the sources of a table") as ask:
            if instead:
                ask("sources_forget", table_id=table_id)
            for source in sources:
                ask("source_allow", table_id=table_id, source=source)

    def dropped_tables(self) -> list[DroppedRecord]:
        return [_dropped(row) for row in self._rows("tables_dropped")]

    def may_commit(self) -> bool:
        """Anyone who may open a database in our own process may write it."""
        return True

    def may_purge(self) -> bool:
        """Anyone who may write a database in our own process may do everything in it."""
        return True

    def begin_purge(
        self, table_id: int, *, drop: bool = False, check: Check | None = None
    ) -> PurgeRecord | None:
        with self._placing("beginning a purge") as ask:
            if drop:
                # The head first, as commits do: a clone of the table holds it, too.
                ask("head_drop", table_id=table_id)
                if not ask("table_drop", table_id=table_id):
                    return None
            found = [row for row in ask("tables_dropped") if row[0] == table_id]
            if not found:
                return None
            record, place = _dropped(found[0]), found[0][-1]
            reason = _foreign_because(ask, record, place)
            if reason is None and check is not None:
                check(ask)
            ask("purges_begin", table_id=table_id)
            return PurgeRecord(record, reason)

    def undrop_table(self, table_id: int, name: str) -> bool:
        with self._placing("bringing a table back") as ask:
            found = [row for row in ask("tables_dropped") if row[0] == table_id]
            if not found:
                return False
            record, place = _dropped(found[0]), found[0][-1]
            if record.is_purging:
                return False
            if ask("table_by_name", name=name):
                raise TableExistsError(
                    f"there is already a table {name}",
                    cause=f"the dropped table {record.name} can't get its name back",
                    remedy="bring it back under another name: lake.undrop(…, new_name=…)",
                )
            # The place was given up to an adoption, or taken since under another spelling.
            here = place_of(record.location)
            for claim in overlapping(ask, place or here, table_id=table_id):
                raise taken(record.location, place or here, claim)
            if place == "":
                # Whoever had it since is gone: it may have left nothing, or a history of its own.
                raise LocationTakenError(
                    f"{record.name} can't be brought back",
                    cause=f"what was at {record.location} was adopted again, as another table",
                    remedy="if a table is there now, adopt that: lake.adopt(location, name)",
                    location=record.location,
                )
            ask("head_restore", table_id=table_id)
            ask("table_restore", table_id=table_id, name=name)
            return True

    def role(self) -> str | None:
        return None

    def known_files(self, table_id: int) -> pa.RecordBatchReader:
        query = self._text("files_known").format(table_id=int(table_id))
        return self._stream(query, KNOWN_SCHEMA)


def overlapping(ask: Ask, place: str, *, table_id: int) -> list[Claim]:
    """The claims of other tables on a place, on one around it or one within it."""
    found = []
    for row in ask("places_claimed", place=place, table_id=table_id):
        found_id, name, location, known, status, is_read_only, is_purging = row
        held = known or place_of(location)
        claim = Claim(found_id, name, location, held, status, bool(is_read_only), bool(is_purging))
        if overlap(claim.place, place):
            found.append(claim)
    return found


def take_place(ask: Ask, location: str, *, table_id: int, adopting: bool = False) -> None:
    """Give a place to a table, or raise `LocationTakenError`.

    An adoption may find the table itself there, dropped or no longer ours to write.
    """
    place = place_of(location)
    # An adoption owns the log, and shares the place with the table that it replaces.
    claim_it = "place_claim" if adopting else "place_take"
    for known_id, known_location in ask("places_missing", table_id=table_id):
        ask(claim_it, table_id=known_id, place=place_of(known_location))
    for claim in overlapping(ask, place, table_id=table_id):
        if not (adopting and _gives_way(claim, place)):
            raise taken(location, place, claim)
    ask(claim_it, table_id=table_id, place=place)


def hold_sources(ask: Ask, sources: Sources) -> None:
    """Lock the tables whose files a new one names, so that none is dropped or vacuumed first."""
    for table_id, pin_id in sorted(sources.items()):
        if not ask("source_lock", table_id=table_id):
            raise TableNotFoundError(
                f"table {table_id} is gone, and the new table would refer to its files",
                cause="it was dropped in the meantime",
                remedy="nothing was created; clone a table that exists",
            )
        if pin_id is not None and not ask("pin_alive", pin_id=pin_id):
            raise CommitError(
                f"table {table_id}: its version is no longer held, and files may be gone",
                cause="this process paused for so long that it was considered dead",
                remedy="nothing was created; clone again",
            )


def inherit_sources(ask: Ask, sources: Sources, *, table_id: int) -> None:
    """Let a new table read the files of those that it names, and what they may read."""
    for origin in sorted(sources):
        ask("sources_inherit", table_id=table_id, origin=origin)


def staged_at(ask: Ask, location: str) -> int | None:
    """The id of the table that is being adopted at a location."""
    place = place_of(location)
    found = overlapping(ask, place, table_id=_NOBODY)
    same = [claim for claim in found if claim.place == place and claim.status == "staged"]
    return same[0].table_id if same else None


def take_over(ask: Ask, location: str, *, table_id: int) -> None:
    """Make an adopted table the only one at its place: nobody else owns the files there."""
    take_place(ask, location, table_id=table_id, adopting=True)
    ask("place_give_up", place=place_of(location), table_id=table_id)


def taken(location: str, place: str, claim: Claim) -> LocationTakenError:
    """The error for a place that another table holds, encloses or lies in."""
    if claim.place == place:
        problem = f"the location {location} belongs to the table {claim.name}"
    elif place.startswith(claim.place):
        problem = f"the location {location} lies within that of the table {claim.name}"
    else:
        problem = f"the table {claim.name} lies within the location {location}"
    remedy = "choose another location"
    if claim.status == "dropped":
        remedy += f", or purge the dropped table: lake.purge({claim.table_id})"
    elif claim.status == "staged":
        remedy += f", or give the adoption up: lake.abandon_adoption({claim.location!r})"
    elif claim.place == place and claim.status == "live":
        remedy = f"use {claim.name}, release it first, or choose another location"
    return LocationTakenError(
        problem,
        cause=f"{_STATUS[claim.status]} at {claim.location}; tables can't share a location",
        remedy=remedy,
        table=claim.name,
        location=claim.location,
    )


_STATUS: Final = {
    "live": "it is",
    "staged": "it is being adopted",
    "dropped": "it was dropped, and its files are still",
}


def _gives_way(claim: Claim, place: str) -> bool:
    if claim.place != place or claim.is_purging:
        return False
    return claim.status == "dropped" or (claim.status == "live" and claim.is_read_only)


def _dropped(row: Row) -> DroppedRecord:
    table_id, name, location, dropped_at, is_purging, reason, _ = row
    return DroppedRecord(table_id, name, location, dropped_at, bool(is_purging), reason)


def _foreign_because(ask: Ask, record: DroppedRecord, place: str | None) -> str | None:
    if record.read_only_reason is not None:
        return f"the table was not deltasql's to write: {record.read_only_reason}"
    if place == "":
        return "the table was adopted again, and the files are those of the new one"
    # A link may now lead elsewhere than when the table took its place.
    here = place_of(record.location)
    for known in {place or here, here}:
        for claim in overlapping(ask, known, table_id=record.table_id):
            if claim.place == known:
                return f"the table {claim.name} is at the same place"
    return None
