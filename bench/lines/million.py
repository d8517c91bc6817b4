"""A million live files: one partition of them, one id in them, all of them beside a history.

The table is loaded once a run, by commits of a thousand files, for all lines that use it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import history, ours
from bench.files import DAYS, ROWS_PER_FILE, wire_adds
from bench.lab import REPEATS, Lab, alternated, say
from bench.lines.opening import WARM, load, tidy
from bench.peers import deltars
from bench.report import Row
from deltasql import Lake

_MEMORY_BAR_MB = 300


@dataclass(frozen=True, slots=True)
class Million:
    """The table, ours and delta-rs's."""

    files: int
    database: str
    url: str
    location: str
    log: Path


def list_partition(lab: Lab) -> Iterator[Row]:
    table = _loaded(lab)
    day = DAYS[6]
    where = f"day = '{day}'"
    with ours.connect(table.url, table.location) as lake:
        count = lake.table(ours.FILES).snapshot().files(where).num_rows
        theirs = len(deltars.open_and_prune(table.log, where))
        if not count == theirs == len(range(DAYS.index(day), table.files, len(DAYS))):
            raise RuntimeError(f"the benchmark is wrong: ours {count} files, peer {theirs}")
        mine, peer = alternated(
            lambda: lake.table(ours.FILES).snapshot().files(where),
            lambda: deltars.open_and_prune(table.log, where),
        )
    yield Row(
        name="partition",
        work=f"list one partition of {len(DAYS)} in {table.files:,} files",
        ours=mine,
        peer=peer,
        peer_name="delta-rs",
        unit="s",
        better="less",
        bar=0.05,
        note=f"{count:,} files; {WARM}, with file_uris(file_pruning_predicate=…), its only call "
        "that prunes without reading data; it returns paths, ours whole rows",
    )


def list_by_stats(lab: Lab) -> Iterator[Row]:
    table = _loaded(lab)
    # Another id each time, so that nobody has the answer ready.
    step = table.files * ROWS_PER_FILE // 40
    ours_ids, peer_ids = (iter(range(step // 3, 40 * step, step)) for _ in range(2))
    with ours.connect(table.url, table.location) as lake:

        def mine() -> int:
            where = f"id = {next(ours_ids)}"
            return int(lake.table(ours.FILES).snapshot().files(where).num_rows)

        def theirs() -> int:
            return len(deltars.open_and_prune(table.log, f"id = {next(peer_ids)}"))

        if (found := (mine(), theirs())) != (1, 1):
            raise RuntimeError(f"the benchmark is wrong: one file has the id, found {found}")
        seconds, peer = alternated(mine, theirs)
    yield Row(
        name="stats",
        work=f"files with id = x in {table.files:,} files",
        ours=seconds,
        peer=peer,
        peer_name="delta-rs",
        unit="s",
        better="less",
        bar=0.3,
        note=f"one file matches; {WARM}, with file_uris(file_pruning_predicate=…)",
    )


def memory(lab: Lab) -> Iterator[Row]:
    table = _loaded(lab)
    command = [sys.executable, "-m", "bench.memory", table.url, table.location, ours.FILES]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout)
    if answer["files"] != table.files:
        raise RuntimeError(f"the benchmark is wrong: {answer} of {table.files} files")
    yield Row(
        name="memory",
        work=f"iterate {table.files:,} files in batches, peak memory",
        ours=answer["peak_mb"],
        unit="MB",
        better="less",
        bar=_MEMORY_BAR_MB,
        note=f"a new process, everything that it is made of included; {answer['imported_mb']:.0f} "
        f"MB of it before the first query; {answer['batches']} batches",
    )


def open_with_history(lab: Lab) -> Iterator[Row]:
    """The same table twice: a copy of the database gets the history."""
    table = _loaded(lab)
    # The load made a version for every thousand files; the history comes on top.
    versions = max(lab.scaled(100_000), 3 * table.files // 1_000)
    dead = lab.scaled(10_000_000, least=10_000)
    with history.database_copy(lab.postgres, table.database, "history") as url:
        say(f"  {versions:,} versions and {dead:,} dead files are generated")
        history.generate(url, ours.FILES, versions=versions, dead_files=dead)
        tidy(url)
        with (
            ours.connect(url, table.location) as old,
            ours.connect(table.url, table.location) as young,
        ):
            snapshot = old.table(ours.FILES).snapshot()
            if (snapshot.version, snapshot.files().num_rows) != (versions, table.files):
                raise RuntimeError("the benchmark is wrong: the history is not as generated")
            yield _history_row(
                old,
                young,
                name="history",
                work=f"open {table.files:,} files after {versions:,} versions, {dead:,} dead rows",
                bar=1.2,
            )
            yield _history_row(
                old,
                young,
                name="history-travel",
                work=f"the same, as of version {versions // 2:,}",
                version=versions // 2,
                bar=None,
            )


def _history_row(
    old: Lake, young: Lake, *, name: str, work: str, bar: float | None, version: int | None = None
) -> Row:
    mine, peer = alternated(
        lambda: old.table(ours.FILES).snapshot(version).files(),
        lambda: young.table(ours.FILES).snapshot().files(),
    )
    return Row(
        name=name,
        work=work,
        ours=mine,
        peer=peer,
        peer_name="no history",
        unit="s",
        better="less",
        bar=bar,
        note=f"the peer is the same table without the history, as it is now; median of {REPEATS} "
        "after a warm-up",
    )


def _loaded(lab: Lab) -> Million:
    found = lab.shared.get("million")
    if found is None:
        found = lab.shared["million"] = _load(lab)
    return found


def _load(lab: Lab) -> Million:
    files = lab.scaled(1_000_000, least=2_800)
    say(f"  loading {files:,} files by commits of 1,000")
    database, location = "million", lab.folder("million").as_uri()
    url = lab.postgres.create_database(database)
    with ours.connect(url, location) as lake:
        load(lake, files)
    tidy(url)
    say("  the same for delta-rs")
    log = lab.folder("deltars") / "table"
    deltars.make_table(log, wire_adds(0, files), per_commit=1_000, checkpoint_every=0)
    return Million(files, database, url, location, log)
