"""Made-up histories: whatever is done to a table, in whatever order, no row is lost or doubled."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import deltasql
from deltasql.errors import CommitError
from deltasql.lake import writing
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import AT_ONCE, SCHEMA, ids, rows
from tests.maintenance.vectors import VECTORS, marking
from tests.sizes import FULL

TRACKED = {"delta.enableRowTracking": "true"}
TABLES = [{}, VECTORS, VECTORS | TRACKED, TRACKED, VECTORS | {"delta.columnMapping.mode": "name"}]


@dataclass
class SlowWrite:
    """A write that has read a version, and is committed some time later."""

    snapshot: Snapshot
    gone: set[int]
    new: set[int]
    marks: bool
    held: ExitStack


class Histories(RuleBasedStateMachine):
    """A table and the ids that should be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="deltasql-histories-"))
        self.lake = deltasql.connect(
            f"sqlite:///{self.place / 'lake.db'}", location=str(self.place / "lake")
        )
        self.next = 0
        self.held: list[tuple[Snapshot, set[int], ExitStack]] = []
        self.slow: list[SlowWrite] = []
        self.clones: list[tuple[Table, set[int]]] = []
        self.versions: dict[int, set[int]] = {}

    def teardown(self) -> None:
        for table, expected in self.clones:
            assert ids(table.scan().to_arrow()) == sorted(expected)
        # Of mapped partition columns DuckDB knows nothing (docs/readers.md).
        is_mapped = "delta.columnMapping.mode" in self.table.snapshot().properties
        is_odd = is_mapped and bool(self.table.snapshot().metadata.partition_columns)
        seen_by_all(self.lake, self.table, but="DuckDB" if is_odd else None)
        assert self.lake.check().ok
        for item in (*(entry[2] for entry in self.held), *(item.held for item in self.slow)):
            item.close()
        self.lake.close()
        shutil.rmtree(self.place, ignore_errors=True)

    @initialize(properties=st.sampled_from(TABLES), partitioned=st.booleans())
    def create(self, properties: dict[str, str], *, partitioned: bool) -> None:
        self.table = self.lake.create_table(
            "a.t", SCHEMA, properties=properties, partition_by=["day"] if partitioned else ()
        )
        self.marks = "delta.enableDeletionVectors" in properties
        self.expected: set[int] = set()
        self._note()

    def _note(self) -> None:
        self.versions[self.table.version] = set(self.expected)

    def _new(self, count: int, day: str) -> tuple[set[int], pa.Table]:
        new = set(range(self.next, self.next + count))
        self.next += count
        return new, rows(*sorted(new), day=day)

    def _some(self, data: st.DataObject, among: set[int]) -> set[int]:
        if not among:
            return set()
        return data.draw(st.sets(st.sampled_from(sorted(among)), max_size=4))

    # --- writers ------------------------------------------------------------------------

    @rule(count=st.integers(1, 5), day=st.sampled_from("ab"))
    def append(self, count: int, day: str) -> None:
        new, data = self._new(count, day)
        self.table.append(data)
        self.expected |= new
        self._note()

    @rule(data=st.data(), day=st.sampled_from("ab"))
    def overwrite(self, data: st.DataObject, day: str) -> None:
        gone = self._some(data, self.expected)
        new, given = self._new(1, day)
        self.table.overwrite(given, where=_where(gone | new))
        self.expected = self.expected - gone | new
        self._note()

    @rule(data=st.data(), marks=st.booleans())
    def begin_slowly(self, data: st.DataObject, *, marks: bool) -> None:
        held = ExitStack()
        snapshot = held.enter_context(self.table.pin())
        gone = self._some(data, self.expected)
        new = set() if marks and self.marks else self._new(1, "a")[0]
        self.slow.append(SlowWrite(snapshot, gone, new, marks and self.marks, held))

    @precondition(lambda self: self.slow)
    @rule(data=st.data())
    def end_slowly(self, data: st.DataObject) -> None:
        item = self.slow.pop(data.draw(st.integers(0, len(self.slow) - 1)))
        with item.held:
            try:
                self._commit(item)
            except CommitError:
                return
        # Whatever came in between: it deleted what it saw, all of which was still there.
        assert item.gone <= self.expected
        self.expected = self.expected - item.gone | item.new
        self._note()

    def _commit(self, item: SlowWrite) -> None:
        where, version = _where(item.gone | item.new), item.snapshot.version
        if item.marks:
            actions = marking(self.table, item.snapshot, item.gone)
            if actions:
                self.table.commit(actions, "DELETE", read_version=version, reads=where)
            return
        write = writing.overwrite(
            self.table.objects,
            item.snapshot,
            rows(*item.new),
            where=where,
            abandon=self.table.abandon(version),
        )
        self.table.commit_write(write)

    # --- upkeep -------------------------------------------------------------------------

    @rule(size=st.sampled_from([500, 2000, 1 << 20]), order=st.sampled_from([(), (), ("id",)]))
    def optimize(self, size: int, order: tuple[str, ...]) -> None:
        report = self.table.optimize(target_size=size, zorder_by=order)
        assert report.skipped == 0
        for version in report.versions:
            self.versions[version] = set(self.expected)

    @rule()
    def purge(self) -> None:
        self.table.reorg()
        self._note()

    @rule()
    def vacuum(self) -> None:
        self.table.vacuum(**AT_ONCE, dry_run=False)
        # Other versions need not be there any more.
        self.versions = {self.table.version: set(self.expected)}

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.table.restore(version)
        self.expected = set(self.versions[version])
        self._note()

    @precondition(lambda self: len(self.clones) < 2)
    @rule()
    def clone(self) -> None:
        name = f"a.clone{len(self.clones)}"
        self.clones.append((self.table.clone(name), set(self.expected)))

    @precondition(lambda self: self.clones)
    @rule()
    def optimize_a_clone(self) -> None:
        self.clones[0][0].optimize()

    @rule()
    def pin(self) -> None:
        held = ExitStack()
        snapshot = held.enter_context(self.table.pin())
        self.held.append((snapshot, set(self.expected), held))

    @precondition(lambda self: self.held)
    @rule()
    def unpin(self) -> None:
        self.held.pop(0)[2].close()

    # --- always -------------------------------------------------------------------------

    @invariant()
    def rows_are_right(self) -> None:
        if not hasattr(self, "table"):
            return
        assert ids(self.table.scan().to_arrow()) == sorted(self.expected)
        for snapshot, expected, _ in self.held:
            assert ids(snapshot.scan().to_arrow()) == sorted(expected)
        for version, expected in list(self.versions.items())[-3:]:
            assert ids(self.table.snapshot(version).scan().to_arrow()) == sorted(expected)


def _where(found: set[int]) -> str:
    return f"id IN ({', '.join(map(str, sorted(found)))})" if found else "id IN (-1)"


TestHistories: Any = pytest.mark.timeout(1800 if FULL else 120)(Histories.TestCase)
TestHistories.settings = settings(
    max_examples=200 if FULL else 12,
    stateful_step_count=50 if FULL else 20,
    deadline=None,
)
