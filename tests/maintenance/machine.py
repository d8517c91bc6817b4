"""Made-up histories of one table among others: whoever writes, keeps up, or dies, every version
within the retention and every one that is held stays whole.

Nothing here knows how vacuum decides: what must be there follows from the times of the versions,
the retention that was asked for, and who holds what.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import deltasql
from deltasql.errors import CommitError, ValidationError
from deltasql.lake import writing
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.log.timestamps import to_ms
from tests.maintenance import dying_verbs
from tests.maintenance.tables import AT_ONCE, SCHEMA, folder, ids, make_old, rows
from tests.maintenance.vectors import VECTORS
from tests.sizes import FULL
from tests.stress.swarm import start

TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TABLES = [{}, VECTORS, VECTORS | TRACKED, TRACKED, FEED, VECTORS | FEED]
_OTHERS_ARE_DEAD = (
    "UPDATE dl_sessions SET heartbeat_at = '2020-01-01 00:00:00.000' WHERE session_id <> '{mine}'",
    "UPDATE dl_pins SET expires_at = '2020-01-01 00:00:00.000' WHERE session_id <> '{mine}'",
    "UPDATE dl_optimize_bins SET claimed_until = '2020-01-01 00:00:00.000'",
)
# As Delta's writers name their files, but never committed; and what is somebody else's.
_ORPHAN = "part-00000-11111111-2222-3333-4444-{:012d}-c000.snappy.parquet"
_FOREIGN = (
    "notes.txt",
    "_hidden/part-00000-11111111-2222-3333-4444-555555555555-c000.snappy.parquet",
    "nested/_delta_log/00000000000000000000.json",
    "nested/part-00000-11111111-2222-3333-4444-666666666666-c000.snappy.parquet",
    "../part-00000-11111111-2222-3333-4444-777777777777-c000.snappy.parquet",
    "..part-00000-11111111-2222-3333-4444-888888888888-c000.snappy.parquet",
)

# What there is to choose from depends on times: the choice itself must not.
_ANY = st.integers(0, 2**10)
T = TypeVar("T")

# The ids that a stock reader finds at a place, at a version.
Reader = Callable[[str, int], list[int]]
_numbers = count()


@dataclass
class Slow:
    """A write that has read a version, and is committed some time later."""

    snapshot: Snapshot
    gone: set[int]
    new: set[int]
    held: ExitStack


class Machine(RuleBasedStateMachine):
    """A table, the ids that should be in each of its versions, and its neighbours."""

    def __init__(
        self,
        lake: deltasql.Lake,
        url: str,
        judges: dict[str, Reader],
        final_judges: dict[str, Reader] | None = None,
    ) -> None:
        """`judges` look at every step, `final_judges` at the end alone."""
        super().__init__()
        self.lake, self.url, self.judges = lake, url, judges
        self.final_judges = judges | (final_judges or {})
        self.name = f"a.t{next(_numbers)}"
        self.next = 0
        self.expected: set[int] = set()
        # What is in each version that must be readable, and since when every version was current.
        self.versions: dict[int, frozenset[int]] = {}
        self.since: dict[int, int] = {}
        self.pins: list[tuple[Snapshot, frozenset[int], ExitStack]] = []
        self.slow: list[Slow] = []
        self.open: tuple[Any, set[int], ExitStack] | None = None
        self.clones: list[tuple[Table, frozenset[int]]] = []
        self.foreign: dict[Path, bytes] = {}
        self.orphans: set[Path] = set()
        # The newest version in the mirror, which may be paused, and what is in it.
        self.mirrored: tuple[int, frozenset[int]] = (0, frozenset())
        self.is_late = False

    @initialize(properties=st.sampled_from(TABLES), partitioned=st.booleans())
    def create(self, properties: dict[str, str], *, partitioned: bool) -> None:
        self.table = self.lake.create_table(
            self.name,
            SCHEMA,
            properties=properties | {"delta.checkpointInterval": "3"},
            partition_by=["day"] if partitioned else (),
        )
        root = folder(self.table)
        for place in _FOREIGN:
            path = root / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"somebody's")
            make_old(path, hours=48)
            self.foreign[path] = b"somebody's"
        self._note()

    def teardown(self) -> None:
        if not hasattr(self, "table"):
            return
        try:
            if FULL:
                self._all_is_readable(self.final_judges)
            for back_to in (sorted(self.versions)[len(self.versions) // 2], None):
                self._vacuum(back_to)
                self._all_is_readable(self.final_judges)
            assert self.lake.check(self.name).ok
        finally:
            for held in (*(item[2] for item in self.pins), *(item.held for item in self.slow)):
                held.close()
            if self.open is not None:
                self.open[2].close()
        for clone, _ in self.clones:
            self.lake.drop_table(clone.name, purge=True)
        self.lake.drop_table(self.name, purge=True)
        self._nobody_elses_is_gone()

    # --- what must be there -------------------------------------------------------------

    def _note(self) -> None:
        """Whatever was committed since, the newest version has the rows that are expected."""
        for version in range(max(self.since, default=-1) + 1, self.table.version + 1):
            self.versions[version] = frozenset(self.expected)
            self.since[version] = to_ms(self.table.snapshot(version).timestamp)

    def _current_at(self, time: int) -> int:
        return max((item for item, since in self.since.items() if since <= time), default=0)

    def _forget(self, *, kept_ms: int, begins: int | None = None) -> None:
        """What was not current any more when the retention began need not be there."""
        begins = self.lake.store.clock_ms() - kept_ms if begins is None else begins
        oldest = max(self.since) if kept_ms == 0 else self._current_at(begins)
        self.versions = {key: found for key, found in self.versions.items() if key >= oldest}

    def _all_is_readable(self, judges: dict[str, Reader]) -> None:
        for version, expected in self.versions.items():
            found = ids(self.table.snapshot(version).scan().to_arrow())
            assert found == sorted(expected), f"version {version}"
        for snapshot, expected, _ in self.pins:
            assert ids(snapshot.scan().to_arrow()) == sorted(expected), f"pin {snapshot.version}"
        for clone, expected in self.clones:
            assert ids(clone.scan().to_arrow()) == sorted(expected), clone.name
        held = {snapshot.version: expected for snapshot, expected, _ in self.pins}
        if not self.is_late:
            # A commit waits only so long for its mirror.
            self.lake.mirror.run(once=True)
            self.mirrored = max(self.since), frozenset(self.expected)
        newest, rows = self.mirrored
        theirs = {key: found for key, found in (self.versions | held).items() if key <= newest}
        for name, read in judges.items():
            for version, expected in (theirs | {newest: rows}).items():
                found = sorted(read(str(folder(self.table)), version))
                assert found == sorted(expected), f"{name} at version {version}"

    def _nobody_elses_is_gone(self) -> None:
        for path, content in self.foreign.items():
            assert path.read_bytes() == content, path

    # --- writers ------------------------------------------------------------------------

    def _new(self, number: int) -> set[int]:
        self.next += number
        return set(range(self.next - number, self.next))

    def _some(self, data: st.DataObject, among: set[int]) -> set[int]:
        drawn = data.draw(st.lists(_ANY, max_size=4))
        return {_one(number, sorted(among)) for number in drawn} if among else set()

    @rule(verb=st.sampled_from(["append", "delete", "merge"]), data=st.data())
    def write(self, verb: str, data: st.DataObject) -> None:
        """Rows that are there go, others come."""
        gone = set() if verb == "append" else self._some(data, self.expected)
        new = set() if verb == "delete" else self._new(2)
        day = "ab"[data.draw(_ANY) % 2]
        if verb == "append":
            self.table.append(rows(*new, day=day))
        elif verb == "delete":
            self.table.delete(_where(gone))
        else:
            (
                self.table.merge(rows(*sorted(gone | new), day=day), "target.id = source.id")
                .when_matched_delete()
                .when_not_matched_insert_all()
                .execute()
            )
        self.expected = self.expected - gone | new
        self._note()

    @rule(data=st.data())
    def begin_slowly(self, data: st.DataObject) -> None:
        held = ExitStack()
        snapshot = held.enter_context(self.table.pin())
        self.slow.append(Slow(snapshot, self._some(data, self.expected), self._new(1), held))

    @precondition(lambda self: self.slow)
    @rule(data=st.data())
    def end_slowly(self, data: st.DataObject) -> None:
        item = self.slow.pop(data.draw(_ANY) % len(self.slow))
        with item.held:
            try:
                write = writing.overwrite(
                    self.table.objects,
                    item.snapshot,
                    rows(*item.new),
                    where=_where(item.gone | item.new),
                    abandon=self.table.abandon(item.snapshot.version),
                )
                self.table.commit_write(write)
            except CommitError:
                return
        assert item.gone <= self.expected, "what it deleted was still there"
        self.expected = self.expected - item.gone | item.new
        self._note()

    @precondition(lambda self: self.open is None)
    @rule()
    def begin_transaction(self) -> None:
        """Its files are written now, and committed some steps later."""
        held, new = ExitStack(), self._new(2)
        transaction = held.enter_context(self.lake.transaction())
        transaction.table(self.name).append(rows(*new))
        self.open = (transaction, new, held)

    @precondition(lambda self: self.open is not None)
    @rule()
    def end_transaction(self) -> None:
        assert self.open is not None
        _, new, held = self.open
        self.open = None
        try:
            held.close()
        except CommitError:
            return
        self.expected |= new
        self._note()

    # --- readers ------------------------------------------------------------------------

    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        version = _one(data.draw(_ANY), sorted(self.versions))
        held = ExitStack()
        snapshot = held.enter_context(self.table.pin(version))
        self.pins.append((snapshot, self.versions[version], held))

    @rule()
    def pause_or_resume(self) -> None:
        """Readers of the mirror go on with what is in it."""
        if self.is_late:
            self.table.mirror.resume()
        elif self.table.mirror.status().lag_versions == 0:
            self.table.mirror.pause()
            self.mirrored = self.table.version, frozenset(self.expected)
        else:
            return
        self.is_late = not self.is_late

    @precondition(lambda self: self.pins)
    @rule()
    def unpin(self) -> None:
        self.pins.pop(0)[2].close()

    # --- upkeep -------------------------------------------------------------------------

    @rule(size=st.sampled_from([500, 1 << 20]), order=st.sampled_from([(), ("id",)]))
    def optimize(self, size: int, order: tuple[str, ...]) -> None:
        self.table.optimize(target_size=size, zorder_by=order)
        self._note()

    @rule(what=st.sampled_from(["vectors", "orphan", "young orphan", "lake", "clone", "drop"]))
    def tidy(self, what: str) -> None:
        """Whatever needs no rule of its own."""
        if what == "vectors":
            self.table.reorg()
            self._note()
        elif what == "lake":
            # By the tables' own retention nothing goes but orphans.
            for report in self.lake.vacuum(dry_run=False):
                assert (report.dead, report.vectors, report.changes) == (0, 0, 0)
        elif what == "clone" and self.clones and not self.open:
            self.clones[0][0].optimize()
            self.clones[0][0].vacuum(**AT_ONCE, dry_run=False)
        elif what == "drop" and not self.open:
            # Nobody may touch what is dropped: it may come back.
            self.lake.drop_table(self.name)
            self.lake.vacuum(dry_run=False, **AT_ONCE)
            self.table = self.lake.undrop(self.name)
        elif "orphan" in what:
            self._lose_files(young=what != "orphan")

    def _lose_files(self, *, young: bool) -> None:
        """As a writer leaves them that dies."""
        path = folder(self.table) / _ORPHAN.format(next(_numbers))
        path.write_bytes(b"rows")
        if young:
            # By a clock that is an hour behind: it may be of a write under way.
            make_old(path, hours=1)
            self.foreign[path] = b"rows"
        else:
            make_old(path, hours=48)
            self.orphans.add(path)

    def _retention(self, back_to: int | None) -> int:
        """In milliseconds: nothing, or back to when a version came."""
        return 0 if back_to is None else self.lake.store.clock_ms() - self.since[back_to]

    @rule(data=st.data())
    def vacuum_back(self, data: st.DataObject) -> None:
        self._vacuum(_one(data.draw(_ANY), sorted(self.versions)))

    @rule()
    def vacuum_now(self) -> None:
        self._vacuum(None)

    def _vacuum(self, back_to: int | None) -> None:
        told = None
        if self.open is None:
            kept = timedelta(milliseconds=self._retention(back_to))
            told = self.table.vacuum(kept, enforce_retention_duration=False)
        kept_ms = self._retention(back_to)
        kept = timedelta(milliseconds=kept_ms)
        try:
            done = self.table.vacuum(kept, dry_run=False, enforce_retention_duration=False)
        except ValidationError as error:
            if self.open is None or "under way" not in str(error):
                raise
            return
        # By some milliseconds the dry run may have kept less than what came after it.
        if told is not None and told.kept_since <= done.kept_since:
            assert done.count >= told.count, "a dry run tells what goes"
        assert not [path for path in self.orphans if path.exists()] or self.open
        self._forget(kept_ms=kept_ms, begins=to_ms(done.kept_since))

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        self.lake.mirror.run(once=True)
        kept_ms = self._retention(_one(data.draw(_ANY), [None, *sorted(self.versions)]))
        self.table.expire(
            timedelta(milliseconds=kept_ms), dry_run=False, enforce_retention_duration=False
        )
        self._has_expired(kept_ms)

    def _has_expired(self, kept_ms: int) -> None:
        head = self.lake.store.head(self.table.table_id)
        assert head is not None
        begins = self.lake.store.clock_ms() - kept_ms
        assert head.earliest_version <= self._current_at(begins)
        assert head.earliest_version <= min((item[0].version for item in self.pins), default=2**62)
        self.versions = {
            key: found for key, found in self.versions.items() if key >= head.earliest_version
        }

    # --- others -------------------------------------------------------------------------

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = _one(data.draw(_ANY), sorted(self.versions))
        self.table.restore(version)
        self.expected = set(self.versions[version])
        self._note()

    @precondition(lambda self: len(self.clones) < 2)
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        version = _one(data.draw(_ANY), sorted(self.versions))
        clone = self.table.clone(f"{self.name}_{len(self.clones)}", version)
        self.clones.append((clone, self.versions[version]))

    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """Somebody else does the same, and is killed in the midst of it."""
        verb = data.draw(st.sampled_from(sorted(dying_verbs.POINTS)))
        point = data.draw(st.sampled_from(sorted(dying_verbs.POINTS[verb])))
        after, given = set(self.expected), None
        kept_ms = self._retention(_one(data.draw(_ANY), [None, *sorted(self.versions)]))
        if verb == "append":
            given = sorted(self._new(2))
            after |= set(given)
        elif verb == "delete":
            gone = self._some(data, self.expected)
            given = _where(gone)
            after -= gone
        elif verb == "restore":
            given = _one(data.draw(_ANY), sorted(self.versions))
            after = set(self.versions[given])
        elif verb != "optimize":
            given = kept_ms
        before = self.table.version
        assert self.lake.location is not None
        process = start(
            dying_verbs.run, self.url, self.lake.location, self.name, verb, point, given
        )
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL), f"{verb}, {point}"
        self._bury()
        self.lake.mirror.run(once=True)
        if self.table.version > before:
            self.expected = after
        self._note()
        if verb == "vacuum":
            self._forget(kept_ms=kept_ms)
        elif verb == "expire":
            self._has_expired(kept_ms)

    def _bury(self) -> None:
        """Ten minutes pass: who died is taken for dead."""
        mine = self.lake.presence.session_id
        for statement in _OTHERS_ARE_DEAD:
            with self.lake.store.locked([]) as log:
                log.execute(statement.format(mine=mine))

    # --- always -------------------------------------------------------------------------

    @invariant()
    def every_version_is_right(self) -> None:
        if hasattr(self, "table"):
            self._all_is_readable(self.judges)
            self._nobody_elses_is_gone()


def _one(number: int, among: Sequence[T]) -> T:
    return among[number % len(among)]


def _where(found: set[int]) -> str:
    return f"id IN ({', '.join(map(str, sorted(found)))})" if found else "id IN (-1)"
