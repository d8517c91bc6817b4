"""Opening a table: all of its live files as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench import ours
from bench.files import wire_adds
from bench.lab import REPEATS, Lab, alternated, say
from bench.peers import deltars
from bench.report import Row
from deltasql import Lake

# How often delta-rs writes a checkpoint unless it is told otherwise.
DELTARS_INTERVAL = 100
WARM = (
    f"median of {REPEATS} after a warm-up, in one process; ours: pooled connections, nothing "
    "else kept between repeats; delta-rs: a new DeltaTable each time, files in the page cache"
)


def open_active_files(lab: Lab) -> Iterator[Row]:
    files = lab.scaled(100_000, least=1_000)
    log = lab.folder("deltars") / "table"
    deltars.make_table(log, wire_adds(0, files), per_commit=1_000, checkpoint_every=0)
    with _lake(lab) as (lake, url):
        load(lake, files)
        tidy(url)
        yield _row(
            lake,
            log,
            files,
            name="open-100k",
            work=f"open {files:,} active files as Arrow",
            bar=0.6,
            note=f"{WARM}; delta-rs from a checkpoint",
        )


def open_small_commits(lab: Lab) -> Iterator[Row]:
    commits = lab.scaled(5_000, least=2 * DELTARS_INTERVAL)
    # Halfway between two checkpoints, as a table is on the average.
    commits += DELTARS_INTERVAL // 2 - commits % DELTARS_INTERVAL
    folder = lab.folder("deltars")
    plain, checkpointed = folder / "plain", folder / "checkpointed"
    deltars.make_table(plain, wire_adds(0, commits), per_commit=1, checkpoint_every=None)
    say(f"  delta-rs writes a checkpoint every {DELTARS_INTERVAL} commits")
    deltars.make_table(
        checkpointed, wire_adds(0, commits), per_commit=1, checkpoint_every=DELTARS_INTERVAL
    )
    with _lake(lab) as (lake, url):
        load(lake, commits, per_commit=1)
        tidy(url)
        work = f"open a table of {commits:,} one-file commits"
        yield _row(
            lake,
            plain,
            commits,
            name="open-5000",
            work=work,
            bar=0.1,
            note=f"{WARM}; the log has no checkpoint, as a writer leaves it that makes none",
        )
        yield _row(
            lake,
            checkpointed,
            commits,
            name="open-5000-checkpointed",
            work="the same, with delta-rs's own checkpoints",
            bar=None,
            note=f"as delta-rs's own writer leaves it: a checkpoint every {DELTARS_INTERVAL} "
            f"commits, the last one {DELTARS_INTERVAL // 2} commits ago",
        )


@contextmanager
def _lake(lab: Lab) -> Iterator[tuple[Lake, str]]:
    location = lab.folder("opening").as_uri()
    with lab.database("opening") as url, ours.connect(url, location) as lake:
        yield lake, url


def load(lake: Lake, files: int, *, per_commit: int = 1_000) -> None:
    """A table of the synthetic files, committed through the public interface."""
    table = ours.create_files_table(lake)
    for start in range(0, files, per_commit):
        numbers = range(start, min(files, start + per_commit))
        table.commit([ours.add_file(number) for number in numbers])


def tidy(url: str) -> None:
    """What autovacuum does sooner or later, now."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def _row(
    lake: Lake, log: Path, files: int, *, name: str, work: str, bar: float | None, note: str
) -> Row:
    found = lake.table(ours.FILES).snapshot().files().num_rows
    theirs = deltars.open_as_arrow(log).num_rows
    if found != files or theirs != files:
        raise RuntimeError(f"the benchmark is wrong: {files} files, ours {found}, peer {theirs}")
    mine, peer = alternated(
        lambda: lake.table(ours.FILES).snapshot().files(), lambda: deltars.open_as_arrow(log)
    )
    return Row(
        name=name,
        work=work,
        ours=mine,
        peer=peer,
        peer_name="delta-rs",
        unit="s",
        better="less",
        bar=bar,
        note=note,
    )
