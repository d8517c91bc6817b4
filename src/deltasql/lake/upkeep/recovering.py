"""A lake whose database is lost, rebuilt from the mirrors of its tables: `lake.recover`."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import quote, unquote

from deltasql.adoption.finding import Findings, find_inside, find_tables
from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    StoreError,
    TableNotFoundError,
    ValidationError,
)
from deltasql.lake.locations import absolute, breadth_of
from deltasql.places import place_of
from deltasql.showing.report import Report

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.objectstore import ObjectStore

Status: TypeAlias = Literal["adopted", "present", "found", "failed"]
_PARALLELISM: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredTable:
    """What became of one place.

    `status` is `adopted`, `present` (it was in the lake already), `found` (in a dry run), or
    `failed`; then `problem` says why and `remedy` what to do. `table` is its name, None if a folder
    could not be searched, or has a name that is not text.
    """

    location: str
    table: str | None
    status: Status
    version: int | None = None
    read_only: str | None = None
    problem: str | None = None
    remedy: str | None = None


# Called after each table: how many are done, how many were found so far, and the outcome.
RecoveryProgress: TypeAlias = Callable[[int, int, RecoveredTable], None]


@dataclass(frozen=True, slots=True, repr=False)
class RecoveryReport(Report):
    """What was found below a location, by place."""

    location: str
    tables: tuple[RecoveredTable, ...]

    @property
    def ok(self) -> bool:
        """Whether every table that was found is in the lake, or in a dry run could be."""
        return not self.failed

    @property
    def adopted(self) -> tuple[RecoveredTable, ...]:
        """Tables that were taken in."""
        return self._with("adopted")

    @property
    def failed(self) -> tuple[RecoveredTable, ...]:
        """Tables that could not be taken in, and folders that could not be searched."""
        return self._with("failed")

    def _with(self, status: Status) -> tuple[RecoveredTable, ...]:
        return tuple(table for table in self.tables if table.status == status)


def recover(  # noqa: PLR0913 - the public names
    lake: Lake,
    location: str | os.PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    fence: bool = True,
    validate: bool = True,
    allow: Sequence[str] = (),
    parallelism: int = _PARALLELISM,
    progress: RecoveryProgress | None = None,
    limit: int | None = None,
    anywhere: bool = False,
) -> RecoveryReport:
    """Adopt every Delta table below a location, by default the lake's, under its folder's name.

    `sales/orders` becomes `sales.orders`, counted from the lake's location if that contains it.
    Tables that can't be adopted are in the report, and don't stop the others. Run again, it
    continues: tables of the lake are skipped, interrupted adoptions resumed. A dry run only reads.
    `fence`, `validate` and `allow` are those of `adopt`; `parallelism` is how many tables are read
    at once.

    If more than `limit` tables would be adopted, none is. A home folder, or the root of a disk, is
    searched with `anywhere` only: it may hold tables of others, whose writers would be locked out.
    """
    place = location or lake.location
    if place is None:
        raise ConfigError(
            "the lake has no location to be recovered from",
            remedy="say where its tables are: lake.recover('s3://bucket/lake')",
        )
    found = absolute(place)
    why = None if anywhere else breadth_of(found)
    if why is not None:
        raise _too_broad(found, why)
    how = _How(
        dry_run=dry_run,
        fence=fence,
        validate=validate,
        allow=tuple(allow),
        parallelism=parallelism,
        limit=None if dry_run else limit,
    )
    return _Recovery(lake, lake.objects(found), how, progress or (lambda *_: None)).run()


def _too_broad(location: str, why: str) -> ValidationError:
    return ValidationError(
        f"{location} is not searched for tables",
        cause=f"{why}; tables of others there would be adopted, and their writers locked out",
        remedy="name the folder that holds the tables, or pass anywhere=True to search all of it",
    )


@dataclass(frozen=True, slots=True)
class _How:
    dry_run: bool
    fence: bool
    validate: bool
    allow: tuple[str, ...]
    parallelism: int
    # How many tables may be adopted; None for all.
    limit: int | None


class _StoppedError(Exception):
    """Another table's failure, or Ctrl-C, ends the whole run."""


class _Recovery:
    """One run over a location."""

    def __init__(
        self, lake: Lake, objects: ObjectStore, how: _How, progress: RecoveryProgress
    ) -> None:
        self._lake = lake
        self._objects = objects
        self._how = how
        self._progress = progress
        self._present = {place_of(table.location): table.name for table in lake.tables()}
        self._above = _folders_above(lake, objects.location)
        self._claims: dict[str, set[str]] = defaultdict(set)
        self._done: list[RecoveredTable] = []
        self._total = 0
        self._new = 0
        self._is_over = threading.Event()

    def run(self) -> RecoveryReport:
        """Outside in: what may lie inside a table depends on what became of that table."""
        found = find_tables(self._objects)
        if "" in found.unread:
            raise found.unread[""]
        self._not_searched(found)
        wave: Sequence[str] = found.tables
        while wave:
            outcomes = self._take_all(wave)
            wave = [inner for folder in wave for inner in self._inside(folder, outcomes[folder])]
        if not self._done:
            raise TableNotFoundError(
                f"there is no Delta table below {self._objects.location}",
                cause="no folder there has a _delta_log",
                remedy="check the location; links on a disk are not followed",
            )
        by_place = sorted(self._done, key=lambda item: item.location)
        return RecoveryReport(self._objects.location, tuple(by_place))

    def _must_be_few(self, folders: Sequence[str]) -> None:
        """A location that is too far up has more tables than anybody expects."""
        limit = self._how.limit
        new = [name for name in folders if place_of(self._location(name)) not in self._present]
        self._new += len(new)
        if limit is not None and self._new > limit:
            raise ValidationError(
                f"there are at least {self._new} tables below {self._objects.location}",
                cause=f"the limit is {limit}; one of them is {self._location(new[0])}",
                remedy="look with dry_run=True whose they are; then name a folder that holds "
                f"fewer, or pass limit={self._new}",
            )

    def _take_all(self, folders: Sequence[str]) -> Mapping[str, RecoveredTable]:
        self._must_be_few(folders)
        self._total += len(folders)
        for folder in filter(_is_text, folders):
            if place_of(self._location(folder)) not in self._present:
                self._claims[self._name(folder)].add(self._location(folder))
        outcomes: dict[str, RecoveredTable] = {}
        running: dict[Future[RecoveredTable], str] = {}
        with ThreadPoolExecutor(self._how.parallelism) as pool:
            try:
                for folder in folders:
                    running[pool.submit(self._take, self._expected(folder))] = folder
                for future in as_completed(running):
                    outcomes[running[future]] = future.result()
                    self._tell(outcomes[running[future]])
            except BaseException:
                self._is_over.set()
                pool.shutdown(cancel_futures=True)
                raise
        return outcomes

    def _tell(self, outcome: RecoveredTable) -> None:
        self._done.append(outcome)
        self._progress(len(self._done), self._total, outcome)

    # --- one table ------------------------------------------------------------------------

    def _expected(self, folder: str) -> RecoveredTable:
        """What should become of a folder, or why it can't be tried."""
        location = self._location(folder)
        if not _is_text(folder):
            return _failed(
                RecoveredTable(location=location, table=None, status="found"),
                problem="the name of its folder is not UTF-8, which no location can express",
                remedy="rename the folder, then run it again",
            )
        known = self._present.get(place_of(location))
        if known is not None:
            version = self._lake.table(known).version
            return RecoveredTable(location=location, table=known, status="present", version=version)
        name = self._name(folder)
        wanted = RecoveredTable(location=location, table=name, status="found")
        others = self._claims[name] - {location}
        if others:
            # Only the user can say which of them is meant.
            return _failed(
                wanted,
                problem=f"{min(others)} is also named {name}",
                remedy="adopt each under a name of its own: lake.adopt(location, name)",
            )
        return wanted

    def _take(self, wanted: RecoveredTable) -> RecoveredTable:
        if wanted.status != "found":
            return wanted
        assert wanted.table is not None, "a table that is found has a name"
        lake, fence, allow = self._lake, self._how.fence, self._how.allow
        try:
            if self._how.dry_run:
                survey = lake.adopt(
                    wanted.location, wanted.table, dry_run=True, fence=fence, allow=allow
                )
                return replace(wanted, version=survey.version, read_only=survey.read_only)
            table = lake.adopt(
                wanted.location,
                wanted.table,
                fence=fence,
                allow=allow,
                validate=self._how.validate,
                progress=lambda _: self._go_on(),
            )
            return replace(
                wanted, status="adopted", version=table.version, read_only=table.read_only
            )
        except StoreError as error:
            # If the database no longer answers, stop here: the rest would fail one by one.
            lake.store.clock_ms()
            return _refused(wanted, error)
        except DeltaSqlError as error:
            return _refused(wanted, error)

    def _go_on(self) -> None:
        if self._is_over.is_set():
            raise _StoppedError

    # --- tables inside tables ---------------------------------------------------------------

    def _inside(self, folder: str, outer: RecoveredTable) -> Iterable[str]:
        """What to try inside the folder; tables where none may be are reported."""
        is_sound = outer.status != "failed"
        found = find_inside(self._objects, folder, is_sound=is_sound)
        self._not_searched(found)
        if not is_sound:
            return found.tables
        for inner in found.tables:
            outcome = self._expected(inner)
            self._total += 1
            if outcome.status == "found":
                outcome = _failed(
                    outcome,
                    problem=f"it is inside the folder of {outer.table}",
                    remedy="tables can't share a location: copy its folder elsewhere, and adopt "
                    "it there",
                )
            self._tell(outcome)
        return ()

    def _not_searched(self, found: Findings) -> None:
        for folder, error in found.unread.items():
            self._total += 1
            here = RecoveredTable(location=self._location(folder), table=None, status="failed")
            self._tell(_refused(here, error))

    # --- names --------------------------------------------------------------------------------

    def _location(self, folder: str) -> str:
        parts = [
            quote(part, safe="", errors="surrogateescape") for part in folder.split("/") if part
        ]
        return "/".join([self._objects.location.rstrip("/"), *parts])

    def _name(self, folder: str) -> str:
        parts = [*self._above, *filter(None, folder.split("/"))]
        # The location is itself a table, outside the lake's: use its own last folder.
        return ".".join(parts) or unquote(self._objects.location).rstrip("/").rpartition("/")[2]


def _folders_above(lake: Lake, location: str) -> list[str]:
    """The folders from the lake's location down to this one; none if it is elsewhere."""
    if lake.location is None:
        return []
    root, here = place_of(lake.location), place_of(location)
    within = here.removeprefix(root).strip("/")
    return within.split("/") if within and here.startswith(root) else []


def _is_text(folder: str) -> bool:
    """Whether a folder's name is UTF-8: on a local disk it may be any bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in folder)


def _refused(wanted: RecoveredTable, error: DeltaSqlError) -> RecoveredTable:
    problem = f"{error.problem}: {error.cause}" if error.cause else error.problem
    return _failed(wanted, problem=problem, remedy=error.remedy)


def _failed(wanted: RecoveredTable, *, problem: str, remedy: str) -> RecoveredTable:
    return replace(wanted, status="failed", problem=problem, remedy=remedy or None)
