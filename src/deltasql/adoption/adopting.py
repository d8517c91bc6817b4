"""Adoption: a log is read into SQL unseen, proven, fenced, and then made visible at once.

Until the fence's commit file is in the log, other writers may win any version; the object store
decides, by put-if-absent. Whoever wins, the commit is read from the log like all others.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from deltasql.adoption.fencing import Author, is_fenced, raise_fence, read_only_reason
from deltasql.adoption.loading.first_checkpoint import LoadAdds, load_adds
from deltasql.adoption.loading.foreign_log import LogPlan, plan_log
from deltasql.adoption.loading.history import Loader, Progress
from deltasql.adoption.loading.outside import PathRules
from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import (
    CommitStateUnknownError,
    DeltaSqlError,
    LogFormatError,
    MirrorError,
    StoreError,
    TableError,
    TableExistsError,
)
from deltasql.log.state import TableState
from deltasql.mirror.checkpoints.soundness import begins_with_state, trust_first_state
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.leases import held_lease
from deltasql.objectstore import ObjectStore
from deltasql.showing.report import Report
from deltasql.spec import codec
from deltasql.spec.protocol import check_readable
from deltasql.store.checking.queries import VERSION_COLUMNS
from deltasql.store.history import HistoryEnd, HistoryRows, key_of_row
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Lease, Work

logger = logging.getLogger("deltasql.adoption")

# A stock writer needs some time for each commit: losing this often is not a race.
_MOST_ATTEMPTS: Final = 200
# How often the log is read again if no fence can keep it from changing.
_MOST_LOOKS: Final = 5
_LOOK_EVERY: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionSettings:
    """How a table is adopted.

    `replaces` is the table whose name it takes; `allowed` are the places outside its own that it
    may read from; `prove` is called with the id of the staged table and the version before anything
    is committed, and raises if SQL disagrees with the log. `load_adds` says how the files of the
    checkpoint that a log begins with are read, given the id of the staged table.
    """

    fence: bool
    committer: str | None
    engine_info: str
    replaces: int | None = None
    allowed: Sequence[str] = ()
    progress: Callable[[Progress], None] | None = None
    cross_check: Callable[[int, LogPlan, TableState], None] | None = None
    load_adds: Callable[[int], LoadAdds] = lambda _: load_adds


def adopt(
    engine: MirrorEngine,
    log: LogStore,
    objects: ObjectStore,
    name: str,
    settings: AdoptionSettings,
) -> int:
    """Adopt the table at the store's root; returns its id.

    An adoption that was interrupted continues where it stopped. One that finds the log faulty
    leaves nothing behind.
    """
    plan = plan_log(objects)
    table_id = log.stage_table(name, objects.location)
    target = Target(table_id, name, objects.location)
    with held_lease(engine, log, target, Work.COMMITS) as lease:
        run = _Adoption(log, objects, lease, settings)
        try:
            log.allow_sources(table_id, settings.allowed, instead=True)
            run.resume(plan)
            run.settle(plan)
            run.finish(name)
        except (CommitStateUnknownError, StoreError, MirrorError, TableError):
            raise  # what is loaded stays for the next attempt
        except DeltaSqlError:
            # Only while it is ours: another process may have taken it over in the meantime.
            if log.trim_history(lease, after=-1):
                log.purge_table(table_id)
            raise
    return table_id


class _Adoption:
    """One run, while the lease on the staged table is held."""

    def __init__(
        self, log: LogStore, objects: ObjectStore, lease: Lease, settings: AdoptionSettings
    ) -> None:
        self._log = log
        self._objects = objects
        self._lease = lease
        self._settings = settings
        self._loader = self._new_loader(None)
        self._earliest = 0
        self._is_cross_checked = False

    def _new_loader(self, state: TableState | None) -> Loader:
        known = () if state is None else self._loaded_ids(state.version)
        return Loader(
            self._objects,
            self._write,
            state=state,
            paths=PathRules(self._objects.location, self._settings.allowed),
            commit_ids=known,
            progress=self._settings.progress,
            load_adds=self._settings.load_adds(self._lease.table_id),
        )

    def _loaded_ids(self, version: int) -> Iterator[str]:
        column = 1 + VERSION_COLUMNS.index("commit_id")
        for row in self._log.other_rows(self._lease.table_id, "versions", version):
            yield row[column]

    def _write(self, rows: HistoryRows) -> None:
        self._must_hold(held=self._log.load_history(self._lease, rows))

    def _must_hold(self, *, held: bool) -> None:
        if not held:
            self._must_not_be_done()
            raise MirrorError(
                f"the adoption of {self._objects.location} was taken over",
                cause="this process paused for so long that another one continued the adoption",
                remedy="nothing is lost; check whether the other process has finished",
            )

    def _must_not_be_done(self) -> None:
        """If two processes adopt a table at once, the second finds it in the lake."""
        for table in self._log.tables():
            if table.table_id == self._lease.table_id:
                raise TableExistsError(
                    f"the table at {self._objects.location} is already in the lake",
                    cause=f"another process has just adopted it, as {table.name}",
                    remedy=f"use {table.name}",
                )

    # --- what an earlier run left ---------------------------------------------------------

    def resume(self, plan: LogPlan) -> None:
        """Keep what is loaded, if the log still says the same; an incomplete version goes."""
        newest = self._newest_loaded(plan)
        table_id = self._lease.table_id
        self._must_hold(held=self._log.trim_history(self._lease, after=newest))
        if newest >= 0:
            record = self._log.state(table_id, newest)
            assert record is not None, "a version is loaded with what is current at it"
            self._loader = self._new_loader(record.parsed())
            # An earlier run may have been allowed more.
            named = self._log.absolute_files_of(table_id)
            self._loader.paths.look_at_named(named, "what is loaded of the log")
            self._earliest = plan.earliest

    def _newest_loaded(self, plan: LogPlan) -> int:
        """The last version that an earlier run loaded and whose bytes are unchanged; else -1."""
        history = self._log.history(self._lease.table_id, limit=1)
        if not history:
            return -1
        newest = history[0]
        found = plan.listing.commits.get(newest.version)
        readable = self._log.state(self._lease.table_id, plan.earliest) is not None
        if found is None or not readable:
            return -1
        same = sha256(self._objects.read(found.path)).digest() == newest.digest
        return newest.version if same else -1

    # --- until the log no longer changes --------------------------------------------------

    def settle(self, plan: LogPlan) -> None:
        """Load to the end of the log, fence it, and load whatever came in between."""
        self._earliest = plan.earliest
        looks = 0
        for _ in range(_MOST_ATTEMPTS):
            self._loader.load(plan)
            state = self._state()
            check_readable(state.protocol)
            self._loader.paths.check()
            self._cross_check(plan, state)
            if self._wants_fence(state):
                self._put_fence(state)
                plan = plan_log(self._objects)
                continue
            looks += 1
            plan = plan_log(self._objects)
            if plan.newest <= state.version or looks >= _MOST_LOOKS:
                for problem in (*plan.problems, *self._loader.problems):
                    logger.warning("%s: %s", self._objects.location, problem)
                return
        raise MirrorError(
            f"the table at {self._objects.location} could not be fenced",
            cause=f"other writers won {_MOST_ATTEMPTS} versions in a row",
            remedy="pause them, then adopt again; what was loaded so far is kept",
        )

    def _state(self) -> TableState:
        assert self._loader.state is not None, "something is loaded"
        return self._loader.state

    def _cross_check(self, plan: LogPlan, state: TableState) -> None:
        if self._settings.cross_check is not None and not self._is_cross_checked:
            self._settings.cross_check(self._lease.table_id, plan, state)
            self._is_cross_checked = True

    def _wants_fence(self, state: TableState) -> bool:
        return self._settings.fence and not is_fenced(state) and read_only_reason(state) is None

    def _put_fence(self, state: TableState) -> None:
        """Try to be the next version. Lost or won, the log shows the result."""
        author = Author(
            committer=self._settings.committer,
            engine=self._settings.engine_info,
            commit_id=str(uuid.uuid4()),
        )
        body = raise_fence(state, now_ms=self._log.clock_ms(), author=author)
        self._objects.put_if_absent(LOG + commit_name(state.version + 1), body)

    # --- the end ------------------------------------------------------------------------------

    def finish(self, name: str) -> None:
        """Make the table visible to everybody."""
        state = self._state()
        protocol = state.protocol
        end = HistoryEnd(
            name=name,
            version=state.version,
            last_ict=state.in_commit_timestamp,
            earliest_version=self._earliest,
            metadata_version=state.metadata_version,
            protocol_version=state.protocol_version,
            min_reader=protocol.min_reader_version,
            min_writer=protocol.min_writer_version,
            properties=codec.dumps(dict(state.properties)).decode(),
            read_only_reason=read_only_reason(state),
            replaces=self._settings.replaces,
        )
        if begins_with_state(self._log, self._lease.table_id, self._earliest):
            # No commit contains this state: later checks of the table must take it from here.
            trust_first_state(
                self._log, self._lease.table_id, self._earliest, files=self._loader.base_sums
            )
        try:
            held = self._log.finish_history(self._lease, end)
        except StoreError as error:
            if error.is_refusal or not self._is_shown(name, error):
                raise
            return  # the answer was lost, but it is done
        self._must_hold(held=held)

    def _is_shown(self, name: str, error: StoreError) -> bool:
        """Whether the table is visible; asked for a while, since the last attempt may be late."""
        was_asked = False
        for _ in range(_MOST_LOOKS):
            with suppress(StoreError):
                shown = self._log.table(name)
                was_asked = True
                if shown is not None and shown.table_id == self._lease.table_id:
                    return True
            time.sleep(_LOOK_EVERY)
        if was_asked:
            return False
        raise CommitStateUnknownError(
            f"it is unknown whether {name} was adopted",
            cause=f"the database's answer was lost, and asking again failed: {error.problem}",
            remedy="when the database is back, look for the table in lake.tables(); if it is not "
            "there, adopt it again",
        ) from error


# --- without writing anything ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AdoptionReport(Report):
    """What an adoption would find: a dry run reads the whole log and writes nothing.

    `versions` can be read, the oldest being `earliest_version`; `files` are live at `version`.
    `read_only` says why the table would not be writable, `commits` whether the adoption would add a
    version of its own, and `problems` what is odd but no obstacle.
    """

    location: str
    version: int
    earliest_version: int
    versions: int
    files: int
    reader_features: tuple[str, ...]
    writer_features: tuple[str, ...]
    read_only: str | None
    commits: bool
    problems: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The features that readers or writers must know."""
        return tuple(sorted({*self.reader_features, *self.writer_features}))


def survey(
    objects: ObjectStore,
    *,
    fence: bool,
    allowed: Sequence[str] = (),
    progress: Callable[[Progress], None] | None = None,
) -> AdoptionReport:
    """Read a log as an adoption would."""
    plan = plan_log(objects)
    live: set[bytes] = set()

    def count(rows: HistoryRows) -> None:
        live.difference_update(key_of_row(row) for row in rows.retired)
        live.update(key_of_row(row) for row in rows.adds)

    paths = PathRules(objects.location, allowed)
    loader = Loader(objects, count, state=None, paths=paths, progress=progress)
    loader.load(plan)
    paths.check()
    state = loader.state
    if state is None:
        raise LogFormatError(f"the log at {objects.location} has no version")
    check_readable(state.protocol)
    read_only = read_only_reason(state)
    return AdoptionReport(
        location=objects.location,
        version=state.version,
        earliest_version=plan.earliest,
        versions=state.version - plan.earliest + 1,
        files=len(live),
        reader_features=tuple(sorted(state.reader_features)),
        writer_features=tuple(sorted(state.writer_features)),
        read_only=read_only,
        commits=fence and read_only is None and not is_fenced(state),
        problems=(*plan.problems, *loader.problems),
    )
