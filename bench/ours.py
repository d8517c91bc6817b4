"""deltasql, doing the work that is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import deltasql
from bench.files import SCHEMA, SMALL_SCHEMA, three_rows, wire_add
from bench.workers import prepared
from deltasql import AddFile, Lake, Table

FILES = "bench.files"
# More than a writer commits, or appends, in one round.
_COMMITS, _APPENDS = 10_000, 3_000


def connect(
    url: str, location: str, *, mirror: str = "off", options: Mapping[str, str] | None = None
) -> Lake:
    """A lake; its mirror is off unless it is what is measured."""
    settings = {"mirror.mode": mirror, **(options or {})}
    return deltasql.connect(url, location=location, settings=settings)


def add_file(number: int, *, partitioned: bool = True) -> AddFile:
    """File `number` as an action; in a table without partitions its day is only in the path."""
    wire = wire_add(number)
    return AddFile(
        path=wire["path"],
        size=wire["size"],
        modification_time=wire["modificationTime"],
        partition_values=wire["partitionValues"] if partitioned else {},
        stats=wire["stats"],
    )


def create_files_table(
    lake: Lake,
    *,
    partitioned: bool = True,
    name: str = FILES,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """The table that the synthetic files belong to."""
    by = ["day"] if partitioned else []
    return lake.create_table(name, SCHEMA, partition_by=by, properties=properties or {})


def create_small_table(lake: Lake, name: str) -> Table:
    """The table that three rows at a time are appended to."""
    return lake.create_table(name, SMALL_SCHEMA)


@contextmanager
def appender(
    url: str, location: str, name: str, worker: int, *, mirror: str = "off"
) -> Iterator[Callable[[int], Any]]:
    """Appends three rows with their data file; making the rows is not what is measured."""
    rows = prepared(
        lambda turn: pa.table(three_rows(worker, turn), schema=SMALL_SCHEMA), turns=_APPENDS
    )
    with connect(url, location, mirror=mirror) as lake:
        table = lake.table(name)
        yield lambda turn: table.append(rows(turn))


@contextmanager
def committer(
    url: str, location: str, first: int, *, partitioned: bool, mirror: str = "off"
) -> Iterator[Callable[[int], Any]]:
    """Commits one given add with statistics; making the action is not what is measured."""
    adds = prepared(lambda turn: add_file(first + turn, partitioned=partitioned), turns=_COMMITS)
    with connect(url, location, mirror=mirror) as lake:
        table = lake.table(FILES)
        yield lambda turn: table.commit([adds(turn)])
