"""Chaos: in the end the mirror equals SQL byte for byte, and no acknowledged commit is lost."""

from __future__ import annotations

import json
import multiprocessing as mp
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltasql.delta_log.names import commit_name
from deltasql.spec import codec
from deltasql.spec.actions import AddFile
from tests.mirror import chaos
from tests.mirror.chaos import TABLE, Deployment
from tests.sizes import FULL
from tests.stress import swarm

SCHEMA = pa.schema([("id", pa.int64())])
WRITERS, WORKERS = 8, 2
LOG = "_delta_log/"


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_everything_dies_now_and_then(
    private_postgres: Any, private_seaweedfs: Any, tmp_path: Path, stress_factor: float
) -> None:
    """Writers, workers, the S3 server and the database, and a store that fails every tenth call."""
    size = max(0.1, stress_factor)
    commits, kills, outages = round(300 * size), round(120 * size), max(1, round(6 * size))
    deployment = Deployment(
        private_postgres.create_database("chaos"),
        private_seaweedfs.location("chaos"),
        private_seaweedfs.options(),
    )
    with deployment.connect() as lake:
        lake.create_table(TABLE, SCHEMA, properties={"delta.checkpointInterval": "20"})
    storm = _Storm(deployment, tmp_path, commits, random.Random(7))
    try:
        for number in range(outages):
            storm.kill_some(kills // (2 * outages + 1))
            private_seaweedfs.kill()
            storm.kill_some(2)
            private_seaweedfs.start()
            storm.kill_some(kills // (2 * outages + 1))
            private_postgres.kill() if number % 2 else private_postgres.stop("immediate")
            private_postgres.start()
        storm.wait_for_writers(limit=120 + 600 * size)
    finally:
        storm.end()
    told = [json.loads(line) for file in storm.journals for line in file.read_text().splitlines()]
    assert len(told) == WRITERS * commits
    _settle(deployment)
    _must_equal(deployment, told)


class _Storm:
    """Eight writers and two workers; whoever dies is started again."""

    def __init__(
        self, deployment: Deployment, folder: Path, commits: int, chance: random.Random
    ) -> None:
        self.journals = [folder / f"{slot}.jsonl" for slot in range(WRITERS)]
        self._deployment, self._commits, self._chance = deployment, commits, chance
        self._lives: Counter[int] = Counter()
        self._running = {slot: self._start(slot) for slot in range(WRITERS + WORKERS)}

    def _start(self, slot: int) -> Any:
        self._lives[slot] += 1
        life = self._lives[slot]
        if slot >= WRITERS:
            return swarm.start(chaos.work, self._deployment, slot, life)
        journal = self.journals[slot]
        return swarm.start(chaos.write, self._deployment, journal, slot, life, self._commits)

    def kill_some(self, count: int) -> None:
        for _ in range(count):
            time.sleep(self._chance.uniform(0.05, 0.5))
            slot = self._chance.choice([*self._running])
            process = self._running[slot]
            if slot < WRITERS and not process.is_alive() and process.exitcode == 0:
                continue
            process.kill()
            process.join()
            self._running[slot] = self._start(slot)

    def wait_for_writers(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        for slot in range(WRITERS):
            self._running[slot].join(max(0.1, deadline - time.monotonic()))
            assert self._running[slot].exitcode == 0, f"writer {slot} has not finished"

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.join()


def _settle(deployment: Deployment) -> None:
    """Let a worker without faults finish; leases of the dead end by themselves."""
    deadline = time.monotonic() + 60
    with deployment.connect(mode="async") as lake:
        while True:
            lake.mirror.run(once=True)
            status = lake.table(TABLE).mirror.status()
            if not (status.lag_versions or status.pending_checkpoints):
                return
            assert time.monotonic() < deadline, status


def _must_equal(deployment: Deployment, told: list[tuple[str, int]]) -> None:
    with deployment.connect(mode="async") as lake:
        table = lake.table(TABLE)
        versions = [*lake.store.commits(table.table_id, after=-1)]
        assert [record.version for record in versions] == list(range(table.version + 1))
        names = {item.path for item in table.objects.list(LOG)}
        expected = {LOG + commit_name(record.version) for record in versions}
        assert {name for name in names if name.endswith(".json")} == expected
        for record in versions:
            assert table.objects.read(LOG + commit_name(record.version)) == record.body
        statuses = lake.store.mirror_status(table.table_id, first=0, last=table.version)
        assert {record.status for record in statuses} == {"SUCCESS"}
        added = Counter(
            (action.path, record.version)
            for record in versions
            for action in codec.decode_commit(record.body, source="sql")
            if isinstance(action, AddFile)
        )
        assert max(Counter(path for path, _ in added).values()) == 1, "a commit was doubled"
        assert {tuple(item) for item in told} <= added.keys(), "an acknowledged commit is lost"
        report = table.mirror.validate()
        assert report.ok, report
        assert report.checkpoint is not None


def test_a_worker_killed_at_every_step(tmp_path: Path) -> None:
    deployment = Deployment(f"sqlite:///{tmp_path / 'lake.db'}", (tmp_path / "lake").as_uri())
    with deployment.connect(mode="off") as lake:
        table = lake.create_table(TABLE, SCHEMA, properties={"delta.checkpointInterval": "2"})
        for number in range(2):
            add = AddFile(path=f"{number}", size=1, modification_time=1, partition_values={})
            table.commit([add])
        folder = tmp_path / "lake" / TABLE / "_delta_log"
        # By an odd stride, so that both of these beginnings are met.
        for step in range(1, 200, 1 if FULL else 3):
            lake.store.forget_mirrored(table.table_id, first=0, last=2)
            # From nothing, and from whatever the one before left behind, in turn.
            if step % 2:
                table.objects.delete([item.path for item in table.objects.list(LOG)])
            # A fork is up at once; nothing of this process's lake is used in it.
            process = mp.get_context("fork").Process(target=chaos.die_at, args=(deployment, step))
            process.start()
            process.join(60)
            found = sorted(path.name for path in folder.glob("*.json"))
            assert found == [commit_name(number) for number in range(len(found))], "a gap"
            if process.exitcode == 0:
                break
            assert process.exitcode == -9
            _settle(deployment)
            for record in lake.store.commits(table.table_id, after=-1):
                assert table.objects.read(LOG + commit_name(record.version)) == record.body
        assert step > 20
    _must_equal(deployment, [("0", 1), ("1", 2)])
