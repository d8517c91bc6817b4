"""A writer as a user would write it: reads, commits, and reads again when it lost."""

from __future__ import annotations

import copy
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltasql
from deltasql import AddFile, RemoveFile
from deltasql.errors import CommitError, CommitStateUnknownError, DeltaSqlError, StoreError
from deltasql.spec import codec
from deltasql.spec.actions import Action
from tests.stress.history import paths_digest
from tests.stress.journal import Journal, Told, new_tag

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("v", pa.string())])
PARTITIONS = 6
# A user who loses this often against others has starved.
MOST_RERUNS = 60
LARGE = 1_100

ONE_TABLE: Mapping[str, int] = {
    "append": 30,
    "append_txn": 14,
    "replace_files": 20,
    "append_rows": 6,
    "overwrite_rows": 8,
    "large": 1,
    "set_property": 2,
    "look": 10,
}
SEVERAL_TABLES: Mapping[str, int] = {**ONE_TABLE, "several": 14, "cut": 4}


@dataclass(frozen=True, slots=True)
class Job:
    """What one writer has to do; survives its process."""

    url: str
    location: str
    journal: Path
    slot: int
    seed: int
    commits: int
    tables: Sequence[str]
    mix: Mapping[str, int]
    partitions: Sequence[int] = tuple(range(PARTITIONS))
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Whether a database that is away is waited for.
    endures: bool = False


def create_tables(url: str, location: str, count: int) -> list[str]:
    """Empty tables for writers to meet at."""
    names = [f"stress.t{number}" for number in range(count)]
    with deltasql.connect(url, location=location) as lake:
        for name in names:
            lake.create_table(name, schema=SCHEMA, partition_by=["p"])
    return names


def work(job: Job) -> None:
    """The whole life of a writer's process; its failure is in the journal."""
    journal = Journal(job.journal)
    try:
        with _connected(job) as lake:
            Writer(job, lake, journal).run()
    except BaseException:
        journal.failed(f"writer {job.slot}: {traceback.format_exc()}")
        raise
    finally:
        journal.close()


@contextmanager
def _connected(job: Job) -> Iterator[deltasql.Lake]:
    while True:
        try:
            lake = deltasql.connect(
                # Said here: the server that forks writers may be older than this test's variables.
                job.url,
                location=job.location,
                settings={"mirror.mode": "off", **job.settings},
            )
            break
        except StoreError:
            if not job.endures:
                raise
            time.sleep(0.1)
    with lake:
        yield lake


class Writer:
    """Does what its job says, goes on where its journal ends."""

    def __init__(self, job: Job, lake: deltasql.Lake, journal: Journal) -> None:
        self.job = job
        self.lake = lake
        self.journal = journal
        self.rng = random.Random(f"{job.seed}/{job.slot}/{job.journal.stat().st_size}")
        told = Told.read(job.journal)
        self.done = len(told.done)
        self.reruns: Counter[str] = Counter()
        # An application goes on behind what it knows to be done, and asks for the rest again.
        self.app_versions = Counter(
            next(iter(intent.tables)) for intent in told.done if intent.app is not None
        )

    def run(self) -> None:
        kinds, weights = list(self.job.mix), list(self.job.mix.values())
        while self.done < self.job.commits:
            (kind,) = self.rng.choices(kinds, weights)
            self.do(kind)
        self.journal.note(slot=self.job.slot, reruns=dict(self.reruns))

    def do(self, kind: str) -> None:
        """One piece of work, however often it takes."""
        for _ in range(MOST_RERUNS):
            try:
                if getattr(self, f"_{kind}")():
                    self.done += 1
                return
            except CommitStateUnknownError:
                if not self.job.endures:
                    raise
                return
            except CommitError:
                self.reruns[kind] += 1
            except StoreError:
                if not self.job.endures:
                    raise
                time.sleep(0.05)
        raise AssertionError(f"{kind} lost {MOST_RERUNS} times against others")

    # --- kinds of work ------------------------------------------------------------------

    def _append(self) -> bool:
        return self._commit("append", self._some_table(), self._adds(self.rng.randint(1, 3)))

    def _large(self) -> bool:
        return self._commit("large", self._some_table(), self._adds(LARGE))

    def _append_txn(self) -> bool:
        name = self._some_table()
        app = (f"app-{self.job.slot}", self.app_versions[name] + 1)
        self._commit("append_txn", name, self._adds(1), app=app)
        self.app_versions[name] += 1
        return True

    def _replace_files(self) -> bool:
        name, partition = self._some_table(), self._some_partition()
        snapshot = self.lake.table(name).snapshot()
        actions = self._replacement(snapshot, partition)
        return self._commit(
            "replace_files",
            name,
            actions,
            partition=partition,
            read_version=snapshot.version,
            reads=f"p = {partition}",
        )

    def _set_property(self) -> bool:
        name = self._some_table()
        snapshot = self.lake.table(name).snapshot()
        properties = {**snapshot.properties, "stress.note": new_tag(self.job.slot)}
        changed = replace(snapshot.metadata, configuration=properties)
        return self._commit(
            "set_property",
            name,
            [changed],
            operation="SET TBLPROPERTIES",
            read_version=snapshot.version,
        )

    def _append_rows(self) -> bool:
        name, rows = self._some_table(), self._rows(self._some_partition())
        return self._facade("append_rows", name, lambda table: table.append(rows))

    def _overwrite_rows(self) -> bool:
        name, partition = self._some_table(), self._some_partition()
        rows = self._rows(partition)
        return self._facade(
            "overwrite_rows",
            name,
            lambda table: table.overwrite(rows, where=f"p = {partition}"),
            partition=partition,
        )

    def _several(self) -> bool:
        """A transaction over some tables, in any order."""
        most = min(5, len(self.job.tables))
        names = self.rng.sample(list(self.job.tables), self.rng.randint(min(2, most), most))
        tag = new_tag(self.job.slot)
        sent: dict[str, list[Action]] = {}
        partitions: dict[str, int] = {}
        with self._outcome(tag) as versions:
            with self._as(tag).transaction() as tx:
                for name in names:
                    table = tx.table(name)
                    if self.rng.random() < 0.5:
                        sent[name] = self._adds(self.rng.randint(1, 2))
                        table.commit(sent[name])
                        continue
                    partitions[name] = partition = self._some_partition()
                    sent[name] = self._replacement(table.snapshot(), partition)
                    table.commit(sent[name], reads=f"p = {partition}")
                self.journal.begin(
                    "several",
                    {name: _wire(actions) for name, actions in sent.items()},
                    tag=tag,
                    partitions=partitions,
                    transaction=tx.id,
                )
            versions.update(tx.versions)
        return True

    def _look(self) -> bool:
        """The files of some version; counts as no commit."""
        table = self.lake.table(self._some_table())
        newest = table.version
        version = self.rng.choice([newest, self.rng.randint(0, newest)])
        paths = table.snapshot(version).files().column("path").to_pylist()
        self.journal.look(table.name, version, paths_digest(paths))
        return False

    def _cut(self) -> bool:
        with self.lake.transaction() as tx:
            self.journal.cut({name: tx.table(name).version for name in self.job.tables})
        return False

    # --- commits ------------------------------------------------------------------------

    def _commit(
        self,
        kind: str,
        name: str,
        actions: Sequence[Action],
        *,
        partition: int | None = None,
        app: tuple[str, int] | None = None,
        **options: Any,
    ) -> bool:
        tag = new_tag(self.job.slot)
        wires = _wire(actions)
        if app is not None:
            wires.append({"txn": {"appId": app[0], "version": app[1]}})
            options.update(app_id=app[0], app_version=app[1])
        partitions = {} if partition is None else {name: partition}
        table = self._as(tag).table(name)
        self.journal.begin(kind, {name: wires}, tag=tag, partitions=partitions, app=app)
        with self._outcome(tag) as versions:
            versions[name] = table.commit(actions, **options)
        return True

    def _facade(
        self,
        kind: str,
        name: str,
        call: Callable[[deltasql.Table], int],
        *,
        partition: int | None = None,
    ) -> bool:
        tag = new_tag(self.job.slot)
        partitions = {} if partition is None else {name: partition}
        table = self._as(tag).table(name)
        self.journal.begin(kind, {name: None}, tag=tag, partitions=partitions)
        with self._outcome(tag) as versions:
            versions[name] = call(table)
        return True

    @contextmanager
    def _outcome(self, tag: str) -> Iterator[dict[str, int]]:
        """Write down how a commit ended."""
        versions: dict[str, int] = {}
        try:
            yield versions
        except CommitStateUnknownError:
            self.journal.unknown(tag)
            raise
        except DeltaSqlError as error:
            self.journal.refused(tag, error)
            raise
        self.journal.done(tag, versions)

    def _as(self, tag: str) -> deltasql.Lake:
        """The lake, for a committer whose name is the tag."""
        lake = copy.copy(self.lake)
        lake.committer = tag
        return lake

    # --- what to write ------------------------------------------------------------------

    def _some_table(self) -> str:
        return self.rng.choice(list(self.job.tables))

    def _some_partition(self) -> int:
        return self.rng.choice(list(self.job.partitions))

    def _adds(self, count: int) -> list[Action]:
        return [new_add(self.job.slot, self._some_partition()) for _ in range(count)]

    def _replacement(self, snapshot: deltasql.Snapshot, partition: int) -> list[Action]:
        """One new file in place of some that are live."""
        paths = snapshot.files(where=f"p = {partition}").column("path").to_pylist()
        gone = self.rng.sample(paths, min(len(paths), self.rng.randint(1, 3)))
        return [*removes(gone, partition), new_add(self.job.slot, partition)]

    def _rows(self, partition: int) -> pa.Table:
        ids = [self.rng.randrange(10**6) for _ in range(3)]
        return pa.table({"id": ids, "p": [partition] * 3, "v": ["x", "y", None]}, schema=SCHEMA)


def new_add(slot: object, partition: int) -> AddFile:
    """A file that nobody wrote; the log does not mind."""
    return AddFile(
        path=f"p={partition}/{new_tag(slot)}",
        size=1_000,
        modification_time=1,
        partition_values={"p": str(partition)},
        stats='{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}',
    )


def removes(paths: Sequence[str], partition: int) -> list[Action]:
    return [
        RemoveFile(path=path, deletion_timestamp=1, partition_values={"p": str(partition)})
        for path in paths
    ]


def _wire(actions: Sequence[Action]) -> list[dict[str, Any]]:
    return [codec.to_wire(action) for action in actions]
