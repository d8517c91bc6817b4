"""Many files in one commit, beside a COPY of the same rows into the same indexes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import psycopg

from bench import ours
from bench.lab import REPEATS, Lab, say, timed
from bench.peers import raw_postgres
from bench.report import Row

_TWIN = "raw_files"


def commit_many_files(lab: Lab) -> Iterator[Row]:
    yield _commit(lab, "bulk-10k", lab.scaled(10_000, least=1_000))
    yield _commit(lab, "bulk-100k", lab.scaled(100_000, least=1_000))


def _commit(lab: Lab, name: str, files: int) -> Row:
    """Ours and COPY in turn; both tables begin empty and grow by the same rows."""
    mine: list[float] = []
    theirs: list[float] = []
    with lab.database("bulk") as url:
        location = lab.folder("bulk").as_uri()
        with (
            ours.connect(url, location) as lake,
            psycopg.connect(url, autocommit=True) as connection,
        ):
            table = ours.create_files_table(lake)
            raw_postgres.create_twin(url, "dl_active_files", _TWIN)
            for turn in range(REPEATS + 1):
                adds = [ours.add_file(turn * files + number) for number in range(files)]
                lab.settle()
                seconds = timed(partial(table.commit, adds))
                chunks = raw_postgres.copy_out(url, _rows_of(table.version))
                lab.settle()
                copied = timed(partial(raw_postgres.copy_in, connection, _TWIN, chunks))
                say(f"  {files:,} files: ours {seconds:.3f} s, COPY {copied:.3f} s")
                if turn > 0:
                    mine.append(seconds)
                    theirs.append(copied)
            counts = connection.execute(
                f"SELECT (SELECT count(*) FROM dl_active_files), (SELECT count(*) FROM {_TWIN})"
            ).fetchone()
    if counts != ((REPEATS + 1) * files,) * 2:
        raise RuntimeError(f"the benchmark is wrong: {counts} rows")
    return Row(
        name=name,
        work=f"commit of {files:,} files",
        ours=statistics.median(mine),
        peer=statistics.median(theirs),
        peer_name="COPY",
        unit="s",
        better="less",
        bar=2.5,
        note=f"median of {REPEATS}; COPY gets text that lies ready in memory, ours gets actions",
    )


def _rows_of(version: int) -> str:
    return f"SELECT * FROM dl_active_files WHERE version = {version}"
