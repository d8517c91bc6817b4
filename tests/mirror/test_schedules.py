"""Random schedules: commits, flights of several workers, faults, deaths, lost records.

After every step the mirror is a prefix of SQL, byte for byte; at the end it is all of SQL. The
machine must also find planted bugs, else it proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from deltasql.errors import DeltaSqlError, MirrorConflictError
from deltasql.mirror import flight as flights
from deltasql.mirror import publish as publishing
from deltasql.mirror.checksum import render_checksum
from deltasql.mirror.flight import LEASE_SECONDS, CommitFlight, LeaseLostError
from deltasql.mirror.log_names import commit_name, crc_name
from deltasql.testing.faulty_store import Call, Fault, FaultyStore
from tests.mirror.model_log import TABLE_ID, ModelLog

LOG = "_delta_log/"
FULL = 10_000
_MOST = 12
PLANS = st.lists(st.sampled_from([None, None, None, *Fault, "dies", "sleeps"]), max_size=_MOST)


class DiedError(BaseException):
    """kill -9: nothing that the worker would still do is done."""


class Shelf:
    """As much of an object store as flights use, in memory."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}

    def put(self, path: str, data: bytes) -> None:
        self.items[path] = bytes(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.items.setdefault(path, kept := bytes(data)) is kept

    def put_many_if_absent(self, items: Any, beside: Any = ()) -> list[bool]:
        return FaultyStore(self).put_many_if_absent(items, beside)  # type: ignore[arg-type]

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:  # noqa: ARG002
        return self.items[path]

    def head(self, path: str) -> bytes | None:
        return self.items.get(path)


class Schedules(RuleBasedStateMachine):
    """Workers on one table, with one database and one object store."""

    def __init__(self) -> None:
        super().__init__()
        self.log = ModelLog()
        self.objects: Any = Shelf()
        self.seen: dict[str, bytes] = {}
        self.foreign: int | None = None

    # --- what happens -----------------------------------------------------------------------

    @rule(
        adds=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), max_size=3),
        removes=st.integers(0, 2),
        is_change=st.booleans(),
    )
    def commit(self, adds: dict[str, int], removes: int, is_change: bool) -> None:
        self.log.commit(adds, removes, is_change=is_change)

    @rule(count=st.integers(2, 9))
    def many_commits(self, count: int) -> None:
        for number in range(count):
            self.log.commit({"m": number})

    @rule(plan=PLANS)
    def fly(self, plan: Sequence[Any]) -> None:
        """A flight that meets what the plan has for each of its calls."""
        store = FaultyStore(self.objects, self._schedule(plan), sleep=lambda _: None)
        lease = self.log.acquire_lease(TABLE_ID, "a", LEASE_SECONDS)
        if lease is None:
            return
        try:
            self._flight(store, lease).run()
        except DiedError:
            return  # and its lease stays
        except (DeltaSqlError, LeaseLostError):
            pass
        self.log.release_lease(lease)

    def _schedule(self, plan: Sequence[Any]) -> Callable[[Call], Fault | None]:
        def choose(call: Call) -> Fault | None:
            what = plan[call.number] if call.number < len(plan) else None
            if what == "dies":
                raise DiedError
            if what == "sleeps":
                # Its lease ends meanwhile, and somebody else does the work.
                self.log.now += round(LEASE_SECONDS * 1000) + 1
                self._land(self.objects)
                return None
            return what

        return choose

    def _flight(self, store: Any, lease: Any) -> CommitFlight:
        log: Any = self.log
        return CommitFlight(log, store, lease, default_interval=10, max_attempts=5)

    def _land(self, store: Any) -> None:
        lease = self.log.acquire_lease(TABLE_ID, "b", LEASE_SECONDS)
        if lease is not None:
            try:
                self._flight(store, lease).run()
            except MirrorConflictError:
                assert self.foreign is not None
            self.log.release_lease(lease)

    @rule(seconds=st.sampled_from([1, 29, 31]))
    def time_passes(self, seconds: int) -> None:
        self.log.now += seconds * 1000

    @rule()
    def the_database_crashes(self) -> None:
        self.log.crash()

    @precondition(lambda self: self.foreign is None and self.log.versions)
    @rule(ahead=st.integers(0, 2))
    def somebody_else_writes(self, ahead: int) -> None:
        """A foreign writer commits a version that SQL has, or will have, with other content."""
        mirrored = len(self._commit_files())
        if ahead == 0 and self.objects.put_if_absent(LOG + commit_name(mirrored), b"foreign"):
            self.foreign = mirrored

    # --- what must hold ---------------------------------------------------------------------

    def _commit_files(self) -> dict[int, bytes]:
        items = self.objects.items.items()
        return {int(path[-25:-5]): data for path, data in items if path.endswith(".json")}

    @invariant()
    def the_mirror_is_a_prefix_of_sql(self) -> None:
        files = self._commit_files()
        assert sorted(files) == list(range(len(files))), "there is a gap"
        for version, content in files.items():
            if version == self.foreign:
                assert content == b"foreign", "it was overwritten"
                assert version == len(files) - 1, "versions were built upon it"
            else:
                assert content == self.log.versions[version].body
        for version, status in enumerate(self.log.disk.statuses):
            assert not status.is_written or version in files, "SQL says more than is there"
            assert not (status.is_written and version == self.foreign), "it is not ours"

    # Before the next, which takes what it saw for good.
    @invariant()
    def checksums_are_exact(self) -> None:
        files = self._commit_files()
        for path, data in self.objects.items.items():
            if path.endswith(".crc") and self.seen.get(path) != data:
                version = int(path[-24:-4])
                assert version in files
                known = self.log.versions[version]
                assert data == render_checksum(known.state, known.totals)

    @invariant()
    def nothing_is_overwritten_or_lost(self) -> None:
        assert self.seen.items() <= self.objects.items.items()
        self.seen = dict(self.objects.items)

    def teardown(self) -> None:
        """Without faults all is mirrored in the end."""
        self.log.now += round(LEASE_SECONDS * 1000) + 1
        self._land(self.objects)
        self.the_mirror_is_a_prefix_of_sql()
        self.checksums_are_exact()
        self.nothing_is_overwritten_or_lost()
        if self.foreign is None:
            names = set(self.objects.items)
            versions = range(len(self.log.versions))
            assert names == {
                LOG + name(version) for version in versions for name in (commit_name, crc_name)
            }
            assert all(status.is_written for status in self.log.disk.statuses)
            assert self.log.disk.lease.totals == self.log.versions[-1].totals


def _run(examples: int, phases: Sequence[Phase] = tuple(Phase)) -> None:
    run_state_machine_as_test(
        Schedules,
        settings=settings(
            max_examples=examples,
            phases=phases,
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.stress
def test_every_schedule_ends_with_the_mirror_equal_to_sql(stress_factor: float) -> None:
    _run(max(50, round(FULL * stress_factor)))


# --- the machine finds bugs -----------------------------------------------------------------


def _believes_what_exists(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publishing, "must_be_ours", lambda *_: None)


def _swallows_errors(patch: pytest.MonkeyPatch) -> None:
    real = flights.publish_commits

    def publish(*arguments: Any) -> None:
        try:
            real(*arguments)
        except MirrorConflictError:
            raise
        except DeltaSqlError:
            return

    patch.setattr(flights, "publish_commits", publish)


def _overwrites(patch: pytest.MonkeyPatch) -> None:
    def put(self: FaultyStore, path: str, data: Any) -> bool:
        self._begin("put_if_absent", path)
        self.inner.put(path, data)
        return True

    patch.setattr(FaultyStore, "put_if_absent", put)


def _goes_backwards(patch: pytest.MonkeyPatch) -> None:
    real = flights.publish_commits

    def publish(objects: Any, versions: Any, checksums: Any) -> None:
        real(objects, versions[::-1], checksums[::-1])

    patch.setattr(flights, "publish_commits", publish)


def _ignores_the_fence(patch: pytest.MonkeyPatch) -> None:
    """A holder that slept records what it meant to do, whoever holds the lease now."""
    patch.setattr(ModelLog, "_holds", lambda *_: True)
    real = flights.publish_commits

    def publish(objects: Any, versions: Any, checksums: Any) -> None:
        try:
            real(objects, versions, checksums)
        except MirrorConflictError:
            raise
        except DeltaSqlError as error:
            error.details["done"] = len(versions)
            raise

    patch.setattr(flights, "publish_commits", publish)


@pytest.fixture
def planted(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        request.param(patch)
        yield


@pytest.mark.parametrize(
    "planted",
    [
        _believes_what_exists,
        _swallows_errors,
        _overwrites,
        _goes_backwards,
        _ignores_the_fence,
    ],
    indirect=True,
)
def test_it_finds_a_planted_bug(planted: None) -> None:
    with pytest.raises((AssertionError, IndexError, ExceptionGroup)):
        _run(300, phases=[Phase.generate])
