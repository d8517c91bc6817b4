"""Upkeep of a table in a bucket, killed again and again at any step, while others write and read:
every version within the retention and every pinned one stays whole, and nothing of others goes.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import deltasql
from deltasql.errors import CommitError
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.log.timestamps import to_ms
from deltasql.maintenance.vacuuming.keys import vector_file
from deltasql.objectstore import open_store
from deltasql.objectstore.remote import RemoteStore
from tests.maintenance.killed_anywhere import Job, purge_again
from tests.maintenance.tables import SCHEMA, ids, rows
from tests.maintenance.vectors import VECTORS
from tests.parts.seaweedfs import SeaweedFs
from tests.readers.engines import DeltaRs
from tests.stress.swarm import start

_SECONDS = 4.0
# A retention must be longer than a write, and a heartbeat says since when there is one.
_HEARTBEAT = 0.2
_ORPHAN = "part-00000-11111111-2222-3333-4444-{:012d}-c000.snappy.parquet"
_FOREIGN = (
    "a/t/notes.txt",
    "a/t/_hidden/" + _ORPHAN.format(1),
    "a/t/nested/_delta_log/00000000000000000000.json",
    "a/t/nested/" + _ORPHAN.format(2),
    "a/t-2/" + _ORPHAN.format(3),
    _ORPHAN.format(4),
)
_OTHERS_ARE_DEAD = (
    "UPDATE dl_sessions SET heartbeat_at = '2020-01-01' WHERE session_id NOT IN ({})",
    "UPDATE dl_pins SET expires_at = '2020-01-01' WHERE session_id NOT IN ({})",
    "UPDATE dl_optimize_bins SET claimed_until = '2020-01-01'",
)
_PENDING = "SELECT count(*) FROM dl_vacuum_files WHERE deleted_at IS NULL"
_RECORDED = "SELECT count(*) FROM dl_vacuum_files WHERE kind = '{}'"
_PROPERTIES = VECTORS | {"delta.checkpointInterval": "5", "delta.enableChangeDataFeed": "true"}


class Writer(threading.Thread):
    """Appends rows and deletes some, and notes what each version of its own changed."""

    def __init__(self, lake: deltasql.Lake, gate: threading.Lock) -> None:
        super().__init__(daemon=True)
        self.table, self.gate, self.stopped = lake.table("a.t"), gate, threading.Event()
        self.done: dict[int, tuple[set[int], set[int]]] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for number in count(0, 2):
                if self.stopped.wait(0.05):
                    return
                with self.gate:
                    self._write(number)
        except BaseException as error:
            self.failure = error
            raise

    def _write(self, number: int) -> None:
        new = {number, number + 1}
        self.done[self.table.append(rows(*new)).version] = new, set()
        if number % 3 == 0:
            gone = {number, number // 2}
            try:
                version = self.table.delete(f"id IN ({', '.join(map(str, gone))})").version
            except CommitError:
                return
            self.done.setdefault(version, (set(), gone))


class Reader(threading.Thread):
    """Holds the newest version for a while, and reads it then."""

    def __init__(self, lake: deltasql.Lake) -> None:
        super().__init__(daemon=True)
        self.table, self.stopped = lake.table("a.t"), threading.Event()
        self.seen: list[tuple[int, list[int]]] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        chance = random.Random(1)
        try:
            while not self.stopped.is_set():
                with self.table.pin() as snapshot:
                    self.stopped.wait(chance.random() * 2 * _SECONDS)
                    self.seen.append((snapshot.version, ids(snapshot.scan().to_arrow())))
        except BaseException as error:
            self.failure = error
            raise


class Bucket:
    """A table in a bucket among things of others, with those who write and read it."""

    def __init__(self, url: str, server: SeaweedFs, tmp_path: Path) -> None:
        self.url, self.settings = url, server.options()
        self.location = server.location(f"killed/{uuid.uuid4()}")
        self.objects = open_store(self.location, self.settings)
        assert isinstance(self.objects, RemoteStore)
        self.tmp_path, self.most = tmp_path, {}
        self.expected: dict[int, frozenset[int]] = {0: frozenset()}
        self.times: dict[int, int] = {}
        self.pins: list[tuple[Snapshot, ExitStack]] = []
        self.chance = random.Random(int(time.time()))
        self.killed = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with self.connected() as self.lake, self.connected() as other, self.connected() as third:
            self.table = self.lake.create_table("a.t", SCHEMA, properties=_PROPERTIES)
            for key in _FOREIGN:
                self.objects.put(key, b"somebody's")
            self.gate = threading.Lock()
            self.writer, self.reader = Writer(other, self.gate), Reader(third)
            self.lakes = (self.lake, other, third)
            self.writer.start()
            self.reader.start()
            try:
                yield
            finally:
                for thread in (self.writer, self.reader):
                    thread.stopped.set()
                for thread in (self.writer, self.reader):
                    thread.join()
                for _, held in self.pins:
                    held.close()
            assert (self.writer.failure, self.reader.failure) == (None, None)
            self._note()
            for version, found in self.reader.seen:
                assert found == sorted(self.expected[version]), f"pin of version {version}"

    def connected(self) -> deltasql.Lake:
        lake = deltasql.connect(self.url, location=self.location, settings=self.settings)
        lake.presence._heartbeat = _HEARTBEAT
        return lake

    def recorded(self, kind: str) -> int:
        """How many files of a kind vacuums have recorded so far, whether they died or not."""
        with self.lake.store.locked([]) as log:
            return int(log.execute(_RECORDED.format(kind))[0][0])

    # --- upkeep -------------------------------------------------------------------------

    def round(self, number: int, verbs: list[str]) -> None:
        """Two kinds of work at once, which die somewhere, at least most of the time."""
        self.objects.put("a/t/" + _ORPHAN.format(100 + number), b"rows")
        jobs = [self._job(number, verb) for verb in verbs]
        processes = [start(job.run) for job in jobs]
        for process, job in zip(processes, jobs, strict=True):
            process.join(120)
            assert process.exitcode in (0, -signal.SIGKILL), f"{job.verb}: {process.exitcode}"
            if process.exitcode:
                self.killed += 1
                continue
            messages, failure = json.loads(job.told.read_text())
            assert failure is None, failure
            self.most[job.verb] = messages
        with self.gate:
            self._bury()
            for job in jobs:
                if job.verb == "purge":
                    self._end_purge(job.table, job.given)
            self.is_whole()
            if number % 4 == 0:
                self._pin()

    def _job(self, number: int, verb: str) -> Job:
        at = self.chance.randrange(round(self.most.get(verb, 24) * 1.1) + 1)
        if verb == "vacuum" and number % 4 == 1:
            # Now and then one lives on, with what those before it have left.
            at = -1
        name, given = "a.t", _SECONDS
        if verb == "purge":
            name = f"a.p{number}"
            table = self.lake.create_table(name, SCHEMA, properties=VECTORS)
            table.append(rows(1, 2))
            table.delete("id = 1")
            given = table.table_id
            self.objects.put(f"a/p{number}/notes.txt", b"somebody's")
        elif verb == "restore":
            with self.gate:
                self._note()
                given = self.chance.choice(self._kept())
        told = self.tmp_path / f"{number}-{verb}.json"
        return Job(self.url, self.location, self.settings, name, verb, given, at, told)

    def _bury(self) -> None:
        """Ten minutes pass: who died is taken for dead."""
        living = ", ".join(f"'{lake.presence.session_id}'" for lake in self.lakes)
        with self.lake.store.locked([]) as log:
            for statement in _OTHERS_ARE_DEAD:
                log.execute(statement.format(living))

    def _end_purge(self, name: str, table_id: int) -> None:
        purge_again(self.lake, name, table_id)
        folder = name.replace(".", "/")
        assert [info.path for info in self.objects.list(folder)] == [f"{folder}/notes.txt"]
        assert table_id not in {item.table_id for item in self.lake.tables()}

    # --- what must be there -------------------------------------------------------------

    def _note(self) -> None:
        """What each version must hold: by what the writer noted, and by what a restore says."""
        for entry in sorted(self.table.history(), key=lambda entry: entry.version):
            version = entry.version
            self.times[version] = to_ms(entry.timestamp)
            if version in self.expected:
                continue
            before = self.expected[version - 1]
            if entry.operation in ("WRITE", "DELETE"):
                new, gone = self.writer.done[version]
                before = before - gone | new
            elif entry.operation == "RESTORE":
                # Appends that it did not see stay: the table is WriteSerializable.
                unseen = range(self._read_by(version) + 1, version)
                before = self.expected[int(entry.operation_params["version"])].union(
                    *(self.writer.done[item][0] for item in unseen if item in self.writer.done)
                )
            else:
                assert entry.operation in ("OPTIMIZE", "REORG"), entry
            self.expected[version] = frozenset(before)

    def _read_by(self, version: int) -> int:
        """The version that a commit had read."""
        store, table_id = self.lake.store, self.table.table_id
        (commit,) = store.commits(table_id, after=version - 1, upto=version)
        return int(json.loads(commit.body.splitlines()[0])["commitInfo"]["readVersion"])

    def _kept(self) -> list[int]:
        """The versions that were current within the retention."""
        since = self.lake.store.clock_ms() - round(1000 * _SECONDS)
        head = self.table.version
        return [
            version
            for version in sorted(self.times)
            if version == head or self.times.get(version + 1, 0) > since
        ]

    def _pin(self) -> None:
        held = ExitStack()
        self.pins.append((held.enter_context(self.table.pin()), held))
        if len(self.pins) > 2:
            self.pins.pop(0)[1].close()

    def is_whole(self) -> None:
        self._note()
        kept = self._kept()
        some = {kept[0], *self.chance.sample(kept, min(2, len(kept))), self.table.version}
        with ExitStack() as stack:
            for version in sorted(some):
                snapshot = stack.enter_context(self.table.pin(version))
                found = ids(snapshot.scan().to_arrow())
                assert found == sorted(self.expected[version]), f"version {version}"
        for snapshot, _ in self.pins:
            found = ids(snapshot.scan().to_arrow())
            assert found == sorted(self.expected[snapshot.version]), f"pin {snapshot.version}"
        self._nobody_elses_is_gone()

    def _nobody_elses_is_gone(self) -> None:
        for key in _FOREIGN:
            assert self.objects.read(key) == b"somebody's", key

    def ends_well(self) -> None:
        """Nobody writes any more: a rerun of everything goes on."""
        with self.connected() as self.lake:
            self.table, self.pins = self.lake.table("a.t"), []
            self._bury()
            self._go_on()

    def _go_on(self) -> None:
        table, options = self.table, {"enforce_retention_duration": False}
        table.optimize()
        # Who died after a commit did not mirror it, and vacuum keeps what the mirror's readers see.
        self.lake.mirror.run(once=True)
        report = table.vacuum(0, dry_run=False, clock_margin=timedelta(0), **options)
        assert report.kept_because is None
        table.expire(0, dry_run=False, **options)
        self._note()
        assert ids(table.scan().to_arrow()) == sorted(self.expected[table.version])
        self._nobody_elses_is_gone()
        with self.lake.store.locked([]) as log:
            assert log.execute(_PENDING)[0][0] == 0
        assert _files(self.objects) == _live(table)
        assert self.lake.check().ok
        assert table.mirror.validate().ok
        theirs = DeltaRs(_for_delta_rs(self.settings)).rows(table.location, None)
        assert ids(theirs) == sorted(self.expected[table.version])


def _files(objects: RemoteStore) -> set[str]:
    found = {info.path for info in objects.list("a/t")} - set(_FOREIGN)
    return {key.removeprefix("a/t/") for key in found if "/_delta_log/" not in key}


def _live(table: Table) -> set[str]:
    """Files of rows, and those of deletion vectors."""
    adds = list(table.snapshot().adds())
    vectors = (vector_file(add.deletion_vector) for add in adds if add.deletion_vector is not None)
    return {add.path for add in adds} | {path for path in vectors if path is not None}


def _for_delta_rs(settings: Mapping[str, str]) -> dict[str, Any]:
    return {f"aws_{name.removeprefix('s3.')}": value for name, value in settings.items()}


@pytest.mark.stress
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_nothing_is_lost(
    postgres_url: str, seaweedfs: SeaweedFs, tmp_path: Path, stress_factor: float
) -> None:
    bucket = Bucket(postgres_url, seaweedfs, tmp_path)
    rounds = max(6, round(50 * stress_factor))
    with bucket.at_work():
        for number in count():
            if number >= rounds and all(map(bucket.recorded, ("DEAD", "ORPHAN"))):
                break
            first = ("vacuum", "vacuum", "expire", "purge")[number % 4]
            second = ("optimize", "restore", "vacuum", "reorg", "sort")[number % 5]
            bucket.round(number, [first] if first == second else [first, second])
            assert number < 10 * rounds, "no vacuum came to anything"
    assert bucket.killed >= rounds // 2
    bucket.ends_well()
