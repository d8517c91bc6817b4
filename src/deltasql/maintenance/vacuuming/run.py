"""One vacuum of one table, from the retention to the report."""

from __future__ import annotations

import logging
import platform
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from deltasql.errors import ValidationError
from deltasql.log.retention import tombstone_ms
from deltasql.log.state import TableState
from deltasql.log.timestamps import from_ms
from deltasql.maintenance.vacuuming.dead import (
    change_files,
    dead_files,
    encoded_keys,
    vector_files,
)
from deltasql.maintenance.vacuuming.elsewhere import Elsewhere
from deltasql.maintenance.vacuuming.horizon import NOTHING, horizon_at
from deltasql.maintenance.vacuuming.journal import Journal, is_pinned
from deltasql.maintenance.vacuuming.keys import Place
from deltasql.maintenance.vacuuming.orphans import Layout, orphans
from deltasql.maintenance.vacuuming.owners import must_be_ours
from deltasql.maintenance.vacuuming.pending import Eligibility
from deltasql.maintenance.vacuuming.report import (
    Candidate,
    Tally,
    VacuumReport,
    retention_ms,
    spoken_ms,
)
from deltasql.objectstore import ObjectStore
from deltasql.spec.properties import DELETED_FILE_RETENTION
from deltasql.store.interface import LogStore
from deltasql.store.upkeep.interface import Hold, Kind

logger = logging.getLogger("deltasql.vacuum")

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The table that is vacuumed."""

    table_id: int
    name: str
    location: str
    state: TableState
    objects: ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the caller asks for; see `Table.vacuum`."""

    retention: timedelta | str | float | None
    dry_run: bool
    enforce_retention_duration: bool
    clock_margin: timedelta
    find_orphans: bool
    committer: str | None

    def __post_init__(self) -> None:
        if self.clock_margin < timedelta(0):
            raise ValidationError(
                f"clock_margin can't be {self.clock_margin}",
                cause="files of writes that are under way would count as orphans",
                remedy="give the most that clocks may be apart, timedelta(0) at least",
            )


def vacuum(
    store: LogStore, subject: Subject, wish: Wish, progress: Progress | None = None
) -> VacuumReport:
    """Delete what no version within the retention needs, or report what that would be."""
    kept_because = must_be_ours(store, subject.objects, subject.table_id, subject.name)
    kept_ms = _retention(store, subject, wish)
    return _Vacuum(store, subject, wish, kept_ms, kept_because, progress or (lambda _: None)).run()


class _Vacuum:
    def __init__(
        self,
        store: LogStore,
        subject: Subject,
        wish: Wish,
        kept_ms: int,
        kept_because: str | None,
        progress: Progress,
    ) -> None:
        self._store = store
        self._subject = subject
        self._wish = wish
        self._kept_ms = kept_ms
        self._kept_because = kept_because if wish.find_orphans else None
        self._finds_orphans = wish.find_orphans and kept_because is None
        self._progress = progress
        self._margin = round(wish.clock_margin.total_seconds() * 1000)
        self._since = store.clock_ms() - kept_ms
        found = horizon_at(store, subject.table_id, self._since, is_now=kept_ms == 0)
        self._horizon, self._late = found.version, found.late
        self._tally = Tally()
        self._place = Place(
            subject.location,
            is_local=subject.objects.is_local,
            within=[claim.place for claim in store.claims(subject.location)],
        )
        tables = store.same_place(subject.table_id, subject.location)
        self._journal = Journal(
            store=store,
            objects=subject.objects,
            place=self._place,
            table_id=subject.table_id,
            table=subject.name,
            tables=tables,
            horizon=self._horizon,
            clock_margin_ms=self._margin,
            seen=self._heads(tables),
            elsewhere=Elsewhere(self._place),
        )

    def run(self) -> VacuumReport:
        if self._wish.dry_run:
            self._rehearse()
            return self._report(None)
        self._store.sweep()
        if self._store.pending_deletes(self._subject.table_id):
            self._journal.finish_pending(
                self._heads(self._journal.tables), self._eligibility(), progress=self._gone
            )
        vacuum_id = str(uuid.uuid4())
        self._store.begin_vacuum(
            vacuum_id,
            self._subject.table_id,
            committer=self._wish.committer,
            host=platform.node(),
            retention_ms=self._kept_ms,
            kept_since=self._since,
        )
        self._journal.carry_out(vacuum_id, self._known_candidates(), progress=self._gone)
        if self._finds_orphans:
            # Separately: they are searched for later, when the log may have advanced.
            self._journal.carry_out(vacuum_id, self._orphans(), progress=self._gone)
        self._store.end_vacuum(vacuum_id)
        facts = {"table": self._subject.name, "files": self._tally.count}
        logger.info("vacuumed", extra=facts)
        return self._report(vacuum_id)

    def _rehearse(self) -> None:
        """Do what the vacuum itself does, without the lock and without writing or deleting."""
        pins = self._pins()
        self._journal.elsewhere.look(self._store)
        elsewhere = self._journal.elsewhere.keys
        pending = [
            found for _, found in self._journal.pending(self._eligibility()) if found is not None
        ]
        for candidate in pending:
            if candidate.key not in elsewhere and not is_pinned(candidate, pins):
                self._tally.add([candidate])
        for candidate in self._known_candidates():
            if not is_pinned(candidate, pins):
                self._tally.add([candidate])
        if self._finds_orphans:
            self._tally.add(self._orphans())

    def _gone(self, candidates: Sequence[Candidate]) -> None:
        self._tally.add(candidates)
        self._progress(self._tally.count)

    # --- what may go --------------------------------------------------------------------

    def _known_candidates(self) -> Iterator[Candidate]:
        if self._horizon == NOTHING:
            return
        store, table_id, place = self._store, self._subject.table_id, self._place
        elsewhere = self._journal.elsewhere
        elsewhere.look(store)
        pins = [hold.version for hold in self._pins()]
        # SQL compares paths as they are spelled, and an object may have several.
        several = encoded_keys(store, self._journal.tables, place)
        doubtful: list[Candidate] = []
        for found in (
            dead_files(store, table_id, place, horizon=self._horizon),
            vector_files(store, table_id, place, horizon=self._horizon),
            change_files(store, table_id, place, horizon=self._horizon, pins=pins),
        ):
            for item in found:
                if item.key in elsewhere.keys:
                    continue
                if item.key in several:
                    doubtful.append(item)
                else:
                    yield item
        yield from self._eligibility().by_key(store, place, doubtful)

    def _orphans(self) -> Iterator[Candidate]:
        tables = self._journal.tables

        def look_again() -> None:
            self._journal.begin_at(self._heads(tables))

        yield from orphans(
            self._store,
            self._subject.objects,
            self._place,
            tables,
            self._journal.elsewhere,
            older_than=self._older_than(),
            layout=Layout.of(self._subject.state),
            tally=self._tally,
            before_known=look_again,
        )

    def _older_than(self) -> int:
        """The time since which a file that no version knows may belong to a write under way."""
        since = self._store.writers().may_have_written_since
        return (self._since if since is None else min(self._since, since)) - self._margin

    def _eligibility(self) -> Eligibility:
        return Eligibility(
            table_id=self._subject.table_id,
            tables=self._journal.tables,
            horizon=self._horizon,
            older_than=self._older_than(),
            layout=Layout.of(self._subject.state),
        )

    def _heads(self, tables: Collection[int]) -> dict[int, int]:
        return {head.table_id: head.version for head in self._store.heads(tables).values()}

    def _pins(self) -> list[Hold]:
        return [
            Hold.of(pin.version, pin.reason)
            for pin in self._store.pins()
            if pin.table_id == self._subject.table_id
        ]

    def _report(self, vacuum_id: str | None) -> VacuumReport:
        kinds = self._tally.kinds
        return VacuumReport(
            table=self._subject.name,
            dry_run=self._wish.dry_run,
            retention=timedelta(milliseconds=self._kept_ms),
            kept_since=from_ms(self._since),
            dead=kinds[Kind.DEAD],
            vectors=kinds[Kind.VECTOR],
            changes=kinds[Kind.CHANGE],
            orphans=kinds[Kind.ORPHAN],
            bytes=self._tally.bytes,
            files=tuple(self._tally.files),
            foreign=self._tally.foreign,
            vacuum_id=vacuum_id,
            kept_because="; ".join(filter(None, (self._late, self._kept_because))) or None,
        )


# --- how much ---------------------------------------------------------------------------


def _retention(store: LogStore, subject: Subject, wish: Wish) -> int:
    """How long to keep what was current, in milliseconds; refuses too short a retention."""
    default = tombstone_ms(subject.state.properties)
    writers = store.writers()
    age = 0 if writers.writing_since is None else max(0, writers.now - writers.writing_since)
    if wish.retention is None:
        return max(default, age)
    wanted = retention_ms(wish.retention)
    if wanted < default and wish.enforce_retention_duration:
        raise ValidationError(
            f"{subject.name}: a retention of {spoken_ms(wanted)} is shorter than the table's own, "
            f"{spoken_ms(default)}",
            cause=f"{DELETED_FILE_RETENTION} says how long old versions stay readable",
            remedy="leave the retention out, or pass enforce_retention_duration=False",
        )
    if wanted < age:
        raise ValidationError(
            f"{subject.name}: a retention of {spoken_ms(wanted)} is shorter than a "
            "write that is under way",
            cause=f"the oldest one began {spoken_ms(age)} ago; what it has read or "
            "written could be deleted before it commits",
            remedy="wait for it to end (lake.sessions() shows whose it is), or ask for a longer "
            "retention",
        )
    return wanted
