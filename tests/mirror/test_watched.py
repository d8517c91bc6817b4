"""Late, never wrong: what other readers see while everything happens is what SQL has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.delta_log.names import commit_name
from tests.mirror.watching import (
    TABLE,
    Scene,
    told,
    truth,
    wait_until,
    watch,
    work,
    write,
)
from tests.stress import swarm

SCHEMA = pa.schema([("id", pa.int64())])
WRITERS, WORKERS = 2, 2


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_readers_see_versions_of_sql_and_nothing_else(
    postgres_url: str, tmp_path: Path, stress_factor: float, policy: str
) -> None:
    """Two writers in sync mode, two workers, a store that fails, stalls, loses answers, and is down
    for a while, so that backlogs are bridged; and readers of other makes all the time.
    """
    scene, size = Scene(postgres_url, tmp_path), max(0.1, stress_factor)
    commits, outages = round(2_000 * size), max(2, round(8 * size))
    with scene.connect(mode="sync") as lake:
        lake.create_table(TABLE, SCHEMA, properties={"delta.checkpointPolicy": policy})
    notes = tmp_path / "notes.jsonl"
    workers = [swarm.start(work, scene, slot) for slot in range(WORKERS)]
    reader = swarm.start(watch, scene, notes)
    gaps = 0
    try:
        wait_until(lambda: notes.exists() and len(told(notes)) > 3, limit=60)
        for outage in range(outages):
            # The mirror is late: a few hundred versions that nobody has written.
            scene.down.touch()
            _write(scene, outage, commits // outages)
            scene.down.unlink()
            with scene.connect(mode="off") as lake:
                gaps = max(gaps, _caught_up(lake))
            _write(scene, outages + outage, commits // outages // 4)
        read = len(told(notes))
        wait_until(lambda: len(told(notes)) > read + 10, limit=60)
    finally:
        scene.done.touch()
        for worker in workers:
            worker.terminate()
        for process in (*workers, reader):
            process.join(60)
            process.kill()
    assert [process.exitcode for process in (*workers, reader)] == [0] * (WORKERS + 1)
    assert gaps, "nothing was bridged: the test has shown less than it should"
    with scene.connect(mode="async") as lake:
        lake.mirror.run(once=True)
        _must_be_true(lake, told(notes))


def _write(scene: Scene, life: int, commits: int) -> None:
    """Let all writers commit, and wait for them."""
    writers = [swarm.start(write, scene, life * WRITERS + n, commits) for n in range(WRITERS)]
    for writer in writers:
        writer.join(300)
        assert writer.exitcode == 0


def _caught_up(lake: deltasql.Lake) -> int:
    """Wait until readers can see the newest version; the largest gap that was below it."""
    gap, status = 0, lake.table(TABLE).mirror.status
    deadline = time.monotonic() + 120
    while (now := status()).lag_versions or now.gap_versions:
        gap = max(gap, now.gap_versions)
        assert time.monotonic() < deadline, now
        time.sleep(0.01)
    return gap


def _must_be_true(lake: deltasql.Lake, notes: list[dict[str, Any]]) -> None:
    expected, table = truth(lake), lake.table(TABLE)
    newest: dict[str, int] = {}
    for note in notes:
        reader = note["reader"]
        if "error" in note:
            # Of an old version alone, which is in a gap.
            assert reader.endswith(" at"), note
            continue
        within = range(note["first"], note["last"] + 1)
        assert note["files"] in {expected[version] for version in within}, note
        if not reader.endswith(" at"):
            assert note["last"] >= newest.get(reader, 0), f"{reader} went back: {note}"
            newest[reader] = note["last"]
    seen = {note["first"] for note in notes if "files" in note}
    assert len(seen) > 20, "readers saw next to nothing of what happened"
    assert {note["reader"] for note in notes} >= {"delta-rs", "DuckDB", "delta-rs at", "DuckDB at"}
    for version, record in enumerate(lake.store.commits(table.table_id, after=-1)):
        assert table.objects.read("_delta_log/" + commit_name(version)) == record.body
    report = table.mirror.validate()
    assert report.ok, report
    assert report.version == len(expected) - 1
