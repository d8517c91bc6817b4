"""Eight processes that commit at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import psycopg

from bench import ours, workers
from bench.lab import ROUND_TRIP_MS, Lab, say
from bench.peers import ducklake, raw_postgres
from bench.report import Row
from bench.workers import Opener, Tally

WRITERS = 8
# One is not enough: a quiet machine still varies by a tenth, and DuckLake by its luck in retries.
ROUNDS = 3
# Apart so far, no two writers of a run give a file the same name.
SPACING = 1_000_000
# Given the round, the processes to start.
Crew = Callable[[int], list[Opener]]


def append_one_table(lab: Lab) -> Iterator[Row]:
    yield _append(lab, tables=1, name="append", bar=12)


def append_eight_tables(lab: Lab) -> Iterator[Row]:
    yield _append(lab, tables=8, name="append-8", bar=14)


def commit_one_add(lab: Lab) -> Iterator[Row]:
    yield _commit(lab, name="commit", work="one table, a commit of one given add", bar=0.5)
    yield _commit(
        lab,
        name="commit-partitioned",
        work="the same, a table with partitions",
        partitioned=True,
        bar=None,
    )


def commit_far_away(lab: Lab) -> Iterator[Row]:
    yield _commit(
        lab,
        name="commit-far",
        work=f"the same, {ROUND_TRIP_MS} ms of round trip added on both sides",
        port=lab.slow_postgres.port,
        bar=0.7,
    )


def sqlite(lab: Lab) -> Iterator[Row]:
    url, location = _sqlite_lake(lab)
    commits = _rounds(lab, lambda turn: _committers(url, location, turn))
    _check_versions(url, location, [ours.FILES], commits)
    yield Row(
        name="sqlite",
        work=f"{WRITERS} SQLite processes, a commit of one given add",
        ours=commits.rate,
        unit="commits/s",
        better="more",
        bar=1_000,
        note=f"failed {commits.failed}",
    )
    yield Row(
        name="sqlite-wait",
        work="the same, the longest wait",
        ours=commits.longest,
        unit="s",
        better="less",
        bar=0.5,
    )
    appends = _rounds(
        lab, lambda _: [partial(ours.appender, url, location, "t0", n) for n in range(WRITERS)]
    )
    _check_versions(url, location, ["t0"], appends)
    yield Row(
        name="sqlite-append",
        work=f"{WRITERS} SQLite processes, append of 3 rows with its file",
        ours=appends.rate,
        unit="commits/s",
        better="more",
        note=f"failed {appends.failed}, longest wait {appends.longest:.2f} s",
    )


# --- PostgreSQL -----------------------------------------------------------------------


def _append(lab: Lab, *, tables: int, name: str, bar: float) -> Row:
    names = [f"t{number}" for number in range(tables)]
    chosen = [names[worker % tables] for worker in range(WRITERS)]
    with lab.database("ours") as url, lab.database("ducklake"):
        location, data = lab.folder("ours").as_uri(), lab.folder("ducklake")
        place = (lab.postgres.port, "ducklake", data)
        with ours.connect(url, location) as lake:
            for table in names:
                ours.create_small_table(lake, table)
        ducklake.create_tables(*place, names)
        mine, theirs = in_turn(
            lab,
            lambda _: [
                partial(ours.appender, url, location, table, worker)
                for worker, table in enumerate(chosen)
            ],
            lambda _: [
                partial(ducklake.appender, *place, table, worker)
                for worker, table in enumerate(chosen)
            ],
        )
        _check_versions(url, location, names, mine)
        _must(
            ducklake.count_rows(*place, names) == 3 * (theirs.done + theirs.warmed),
            "DuckLake lost or doubled rows",
        )
    where = "one table" if tables == 1 else f"{tables} tables"
    return Row(
        name=name,
        work=f"{WRITERS} writers, {where}, append of 3 rows with its file",
        ours=mine.rate,
        peer=theirs.rate,
        peer_name="DuckLake",
        unit="commits/s",
        better="more",
        bar=bar,
        note=f"rows lie ready in memory on both sides; failed: ours {mine.failed}, "
        f"DuckLake {theirs.failed} after its default retries; "
        f"longest wait: ours {mine.longest:.2f} s, DuckLake {theirs.longest:.2f} s"
        + (f" ({theirs.problem})" if theirs.problem else ""),
    )


def _commit(
    lab: Lab,
    *,
    name: str,
    work: str,
    bar: float | None,
    port: int | None = None,
    partitioned: bool = False,
) -> Row:
    with lab.database("ours") as direct, lab.database("raw") as raw:
        location = lab.folder("ours").as_uri()
        with ours.connect(direct, location) as lake:
            ours.create_files_table(lake, partitioned=partitioned)
            # From a number that no writer reaches, and as long as theirs.
            probe = ours.add_file(2 * WRITERS * ROUNDS * SPACING, partitioned=partitioned)
            lake.table(ours.FILES).commit([probe])
        body_size = _body_size(direct)
        raw_postgres.create_log(raw)
        url = lab.postgres.url("ours", port=port)
        raw_url = lab.postgres.url("raw", port=port)
        mine, theirs = in_turn(
            lab,
            lambda turn: _committers(url, location, turn, partitioned=partitioned),
            lambda _: [
                partial(raw_postgres.committer, raw_url, body_size, n) for n in range(WRITERS)
            ],
        )
        _check_versions(direct, location, [ours.FILES], mine, before=1)
        _must(raw_postgres.version(raw) == theirs.done + theirs.warmed, "raw commits are lost")
    return Row(
        name=name,
        work=f"{WRITERS} writers, {work}" if port is None and not partitioned else work,
        ours=mine.rate,
        peer=theirs.rate,
        peer_name="raw",
        unit="commits/s",
        better="more",
        bar=bar,
        note=f"failed: ours {mine.failed}, raw {theirs.failed}; longest wait: ours "
        f"{mine.longest * 1000:.0f} ms, raw {theirs.longest * 1000:.0f} ms; a body has "
        f"{body_size} bytes on both sides" + (f" ({mine.problem})" if mine.problem else ""),
    )


# --- rounds ---------------------------------------------------------------------------


def in_turn(lab: Lab, mine: Crew, theirs: Crew) -> tuple[Tally, Tally]:
    """Ours, peer, ours, peer."""
    found: tuple[list[Tally], list[Tally]] = ([], [])
    for turn in range(ROUNDS):
        for name, crew, tallies in zip(("ours", "peer"), (mine, theirs), found, strict=True):
            lab.settle()
            tallies.append(workers.run(crew(turn), seconds=lab.seconds))
            say(f"  round {turn + 1}, {name}: {tallies[-1].rate:,.0f}/s")
    return workers.combined(found[0]), workers.combined(found[1])


def _rounds(lab: Lab, crew: Crew) -> Tally:
    tallies = []
    for turn in range(ROUNDS):
        lab.settle()
        tallies.append(workers.run(crew(turn), seconds=lab.seconds))
        say(f"  round {turn + 1}: {tallies[-1].rate:,.0f}/s")
    return workers.combined(tallies)


def _committers(url: str, location: str, turn: int, *, partitioned: bool = False) -> list[Opener]:
    first = turn * WRITERS
    return [
        partial(ours.committer, url, location, (first + n) * SPACING, partitioned=partitioned)
        for n in range(WRITERS)
    ]


def _sqlite_lake(lab: Lab) -> tuple[str, str]:
    folder = lab.folder("sqlite")
    url, location = f"sqlite:///{folder / 'lake.db'}", (folder / "data").as_uri()
    with ours.connect(url, location) as lake:
        ours.create_files_table(lake, partitioned=False)
        ours.create_small_table(lake, "t0")
    return url, location


# --- the work was done ----------------------------------------------------------------


def _check_versions(
    url: str, location: str, names: list[str], tally: Tally, *, before: int = 0
) -> None:
    """Every acknowledged commit is a version with its file, and there are no others."""
    done = tally.done + tally.warmed + before
    with ours.connect(url, location) as lake:
        snapshots = [lake.table(name).snapshot() for name in names]
        versions = sum(snapshot.version for snapshot in snapshots)
        files = sum(snapshot.files().num_rows for snapshot in snapshots)
    # A failed commit may have been made all the same; it is not one of those that were counted.
    most = done + tally.failed
    _must(done <= versions <= most, f"{done} commits were acknowledged, {versions} made")
    _must(done <= files <= most, f"{done} files were committed, {files} are live")


def _body_size(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT length(body) FROM dl_table_versions ORDER BY version DESC LIMIT 1"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _must(holds: object, problem: str) -> None:
    if not holds:
        raise RuntimeError(f"the benchmark is wrong: {problem}")
