"""A machine of random schedules: commits, runs of several workers, faults, deaths, lost records.

After every step the mirror is a prefix of SQL, byte for byte, each `V.crc` and checkpoint is that
of a version which is there, and `_last_checkpoint` names the newest it ever did. At the end all
of SQL is in the mirror.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

from deltasql.delta_log.checkpoint.writing import CheckpointSource, CheckpointSummary
from deltasql.delta_log.checksum import render_checksum
from deltasql.delta_log.last_checkpoint import render_last_checkpoint
from deltasql.delta_log.names import LAST_CHECKPOINT, checkpoint_name, commit_name, crc_name
from deltasql.errors import DeltaSqlError, MirrorConflictError
from deltasql.mirror.checkpoints import checkpointing
from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
from deltasql.mirror.leases import LEASE_SECONDS, LeaseLostError
from deltasql.mirror.publishing.publish_run import (
    PublishRun,
)
from deltasql.objectstore import ObjectInfo, Output, PutChain
from deltasql.store.mirroring.interface import Lease, Work
from deltasql.testing.faulty_store import Call, Fault, FaultyStore
from tests.mirror.model_log import DEFAULT_INTERVAL, TABLE_ID, ModelLog

LOG = "_delta_log/"
POINTER = LOG + LAST_CHECKPOINT
_CHECKPOINT = ".checkpoint.parquet"
_MOST = 12
PLANS = st.lists(st.sampled_from([*[None] * 6, *Fault, "dies", "sleeps"]), max_size=_MOST)


class DiedError(BaseException):
    """kill -9: nothing that the worker would still do is done."""


class Shelf:
    """As much of an object store as publish runs use, in memory."""

    location = "memory:///shelf"

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}

    def put(self, path: str, data: bytes) -> None:
        self.items[path] = bytes(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.items.setdefault(path, kept := bytes(data)) is kept

    def put_many_if_absent(self, items: Any, beside: Any = ()) -> PutChain:
        return FaultyStore(self).put_many_if_absent(items, beside)  # type: ignore[arg-type]

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:  # noqa: ARG002
        return self.items[path]

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        found = self.items.get(path)
        return None if found is None else (found, found.hex())

    def put_if_match(self, path: str, data: bytes, tag: str | None) -> bool:
        found = self.items.get(path)
        if (None if found is None else found.hex()) != tag:
            return False
        self.put(path, data)
        return True

    @contextmanager
    def open_output(self, path: str) -> Iterator[Output]:
        pieces: list[bytes] = []
        output = Output(lambda piece: pieces.append(bytes(piece)))
        yield output
        output.created = self.put_if_absent(path, b"".join(pieces))

    def head(self, path: str) -> bytes | None:
        return self.items.get(path)

    def size(self, path: str) -> int:
        return len(self.items[path])

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        for path in sorted(self.items):
            if path.startswith(f"{prefix}/") and path > (start_after or ""):
                yield ObjectInfo(path, self.size(path), 0)


def _write_plainly(sink: Any, source: CheckpointSource) -> CheckpointSummary:
    """A checkpoint that says what a real one does, without Parquet's milliseconds."""
    files: Any = list(source.files)
    content = _content(source.state.version, files)
    sink.write(content)
    return summary_of(source.state.version, files)


def _content(version: int, files: Sequence[tuple[str, int]]) -> bytes:
    return json.dumps([version, files]).encode()


def summary_of(version: int, files: Sequence[tuple[str, int]]) -> CheckpointSummary:
    """What a plain checkpoint's pointer says of it."""
    return CheckpointSummary(
        version=version,
        size=len(files) + 2,
        size_in_bytes=len(_content(version, files)),
        num_of_add_files=len(files),
    )


class Schedules(RuleBasedStateMachine):
    """Workers on one table, with one database and one object store."""

    def __init__(self) -> None:
        super().__init__()
        self.log = ModelLog()
        self.objects: Any = Shelf()
        self.seen: dict[str, bytes] = {}
        self.pointed = -1
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

    @rule(plan=PLANS, rounds=st.integers(1, 3))
    def publish(self, plan: Sequence[Any], rounds: int) -> None:
        """A publish run that meets what the plan has for each of its calls, in one round or several
        that it tells SQL of in the end.
        """
        self._meet(plan, Work.COMMITS, rounds)

    @rule(plan=PLANS)
    def write_checkpoints(self, plan: Sequence[Any]) -> None:
        """The same with checkpoints."""
        self._meet(plan, Work.CHECKPOINTS)

    def _meet(self, plan: Sequence[Any], work: Work, rounds: int = 1) -> None:
        store = FaultyStore(self.objects, self._schedule(plan, work), sleep=lambda _: None)
        lease = self.log.acquire_lease(TABLE_ID, "a", LEASE_SECONDS, work)
        if lease is None:
            return
        publish_run = self._publish_run(store, lease)
        try:
            for number in range(1, rounds):
                assert isinstance(publish_run, PublishRun)
                publish_run.run(lazily=True)
                self.log.commit({"r": number})
            publish_run.run()
        except DiedError:
            return  # and its lease stays
        except (DeltaSqlError, LeaseLostError):
            pass
        self.log.release_lease(lease)

    def _schedule(self, plan: Sequence[Any], work: Work) -> Callable[[Call], Fault | None]:
        def choose(call: Call) -> Fault | None:
            what = plan[call.number] if call.number < len(plan) else None
            if what == "dies":
                raise DiedError
            if what == "sleeps":
                # Its lease ends meanwhile, and somebody else does the work.
                self.log.now += round(LEASE_SECONDS * 1000) + 1
                self._land(Work.COMMITS, work)
                return None
            return what

        return choose

    def _publish_run(self, store: Any, lease: Lease) -> PublishRun | CheckpointRun:
        log: Any = self.log
        if lease.work is Work.CHECKPOINTS:
            return CheckpointRun(log, store, lease, max_attempts=5)
        return PublishRun(log, store, lease, default_interval=DEFAULT_INTERVAL, max_attempts=5)

    @rule()
    def fly_well(self) -> None:
        """A publish run that meets nothing, so that checkpoints are due."""
        self._land(Work.COMMITS)

    def _land(self, *works: Work) -> None:
        """Do all that is due, without faults, unless somebody else is at it."""
        for work in works:
            lease = self.log.acquire_lease(TABLE_ID, "b", LEASE_SECONDS, work)
            if lease is not None:
                try:
                    self._publish_run(self.objects, lease).run()
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

    def _checkpoints(self) -> dict[int, bytes]:
        items = self.objects.items.items()
        return {
            int(path.removeprefix(LOG)[:20]): data
            for path, data in items
            if path.endswith(_CHECKPOINT)
        }

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

    # Before the last of them, which takes what it saw for good.
    @invariant()
    def checksums_are_exact(self) -> None:
        files = self._commit_files()
        for path, data in self.objects.items.items():
            if path.endswith(".crc") and self.seen.get(path) != data:
                version = int(path[-24:-4])
                assert version in files, "it came before its commit file"
                known = self.log.versions[version]
                assert data == render_checksum(known.state, known.totals)

    @invariant()
    def checkpoints_are_of_versions_that_are_there(self) -> None:
        files, found = self._commit_files(), self._checkpoints()
        for version, content in found.items():
            known = self.log.versions[version]
            assert version in files, "it came before its commit file"
            assert version != self.foreign, "it is not ours"
            assert version > 0
            assert version % known.interval == 0, "it was not due"
            assert content == _content(version, sorted(known.live.items()))
        for version, status in enumerate(self.log.disk.statuses):
            assert not status.has_checkpoint or version in found, "SQL says more than is there"

    @invariant()
    def the_pointer_names_a_checkpoint_and_never_goes_back(self) -> None:
        content = self.objects.items.get(POINTER)
        if content is None:
            assert self.pointed == -1, "it is gone"
            return
        version = json.loads(content)["version"]
        assert version in self._checkpoints(), "it came before its checkpoint"
        assert version >= self.pointed, "it went back"
        files = sorted(self.log.versions[version].live.items())
        assert content == render_last_checkpoint(summary_of(version, files))
        self.pointed = version

    @invariant()
    def nothing_is_overwritten_or_lost(self) -> None:
        kept = {path: data for path, data in self.objects.items.items() if path != POINTER}
        assert self.seen.items() <= kept.items()
        self.seen = kept

    def teardown(self) -> None:
        """Without faults all is mirrored in the end."""
        self.log.now += round(LEASE_SECONDS * 1000) + 1
        self._land(*Work)
        self.the_mirror_is_a_prefix_of_sql()
        self.checksums_are_exact()
        self.checkpoints_are_of_versions_that_are_there()
        self.the_pointer_names_a_checkpoint_and_never_goes_back()
        self.nothing_is_overwritten_or_lost()
        # What follows a foreign file waits for somebody to look at it.
        count = len(self.log.versions) if self.foreign is None else self.foreign
        due = [
            number
            for number, version in enumerate(self.log.versions[:count])
            if number > 0 and number % version.interval == 0
        ]
        assert sorted(self._checkpoints()) == due
        assert self.pointed == (due[-1] if due else -1)
        statuses = self.log.disk.statuses[:count]
        assert all(item.is_written and item.status == "SUCCESS" for item in statuses)
        assert set(self.objects.items) == {
            *(LOG + name(v) for v in range(count) for name in (commit_name, crc_name)),
            *(LOG + checkpoint_name(version) for version in due),
            *([POINTER] if due else []),
            *([] if self.foreign is None else [LOG + commit_name(self.foreign)]),
        }
        if self.foreign is None:
            assert self.log.disk.leases[Work.COMMITS].totals == self.log.versions[-1].totals


def run_schedules(examples: int, phases: Sequence[Phase] = tuple(Phase)) -> None:
    """Run so many schedules of up to 25 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpointing, "write_checkpoint", _write_plainly)
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
