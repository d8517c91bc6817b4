"""A table whose files come and go for very many versions, as they do in life: writers commit, and
from time to time vacuum and retention follow.

Several processes add files, one a commit, and each removes its last hundred at once. What is not
done is the mirror, whose files nobody reads here: its status says that it was, in one statement.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing.queues import Queue
from typing import Any

import psycopg

import deltasql
from deltasql.lake.table import Table

WRITERS = 4
# Files that a writer has added when it removes them, in one commit.
_AT_ONCE = 100
_CREATED_MS = 1_770_000_000_000
# What grows with versions or with files, and is emptied again.
TABLES = (
    "dl_table_versions",
    "dl_mirror_status",
    "dl_active_files",
    "dl_dead_files",
    "dl_vacuum_files",
    "dl_table_heads",
)
# The table keeps nothing, not even the record of what vacuum deleted.
PROPERTIES = {
    "delta.logRetentionDuration": "interval 0 seconds",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
}
_MIRRORED = """
UPDATE dl_mirror_status
SET status = 'SUCCESS', json_written = true, checkpoint_written = version = %(head)s
WHERE table_id = %(table_id)s AND status = 'PENDING'
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one stretch left: versions so far, and the bytes of each table with its indexes."""

    versions: int
    deleted: int
    expired: int
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        found = ", ".join(f"{name[3:]} {size / 2**20:.1f}" for name, size in self.sizes.items())
        return f"{self.versions:,} versions; MiB with indexes: {found}"


def stretches(
    url: str, location: str, name: str, add: Mapping[str, Any], *, versions: int, steps: int
) -> Iterator[Stretch]:
    """Give a table at least so many versions, with upkeep after each of `steps` stretches.

    `add` is the action of one of its files. The live files afterwards are those from before.
    """
    done = 0
    with deltasql.connect(url, location=location) as lake, _writers(url, location, name, add) as go:
        table = lake.table(name)
        first = table.version
        for step in range(steps):
            # A hundred commits that add, and one that removes.
            left = versions * (step + 1) // steps - done
            go(max(1, -(-left // (WRITERS * (_AT_ONCE + 1)))))
            done = table.version - first
            _mirror(url, table)
            deleted = table.vacuum(dry_run=False, find_orphans=False).count
            expired = table.expire(0, dry_run=False).versions
            yield Stretch(done, deleted, expired, _sizes(url))


def _mirror(url: str, table: Table) -> None:
    values = {"head": table.version, "table_id": table.table_id}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_MIRRORED, values)


@contextmanager
def _writers(
    url: str, location: str, name: str, add: Mapping[str, Any]
) -> Iterator[Callable[[int], None]]:
    """Processes that write; what is yielded has each of them do so many rounds."""
    context = multiprocessing.get_context("spawn")
    given, done = context.Queue(), context.Queue()
    writers = [
        context.Process(
            target=_writer, args=(url, location, name, add, number, given, done), daemon=True
        )
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()

    def go(rounds: int) -> None:
        for _ in writers:
            given.put(rounds)
        for _ in writers:
            failure = done.get()
            if failure is not None:
                raise RuntimeError(f"a writer failed:\n{failure}")

    try:
        yield go
    finally:
        for writer in writers:
            writer.kill()
            writer.join()


def _writer(
    url: str,
    location: str,
    name: str,
    add: Mapping[str, Any],
    number: int,
    given: Queue[int],
    done: Queue[str | None],
) -> None:
    try:
        with deltasql.connect(url, location=location) as lake:
            table, turns = lake.table(name), count()
            while True:
                for _ in range(given.get()):
                    _add_and_remove(table, add, f"{number}-{next(turns)}")
                done.put(None)
    except BaseException:  # noqa: BLE001 - whoever waits shows it
        done.put(traceback.format_exc())


def _add_and_remove(table: Table, add: Mapping[str, Any], mark: str) -> None:
    paths = [f"churn-{mark}-{number}.parquet" for number in range(_AT_ONCE)]
    for path in paths:
        table.commit([{"add": {**add, "path": path}}])
    removed = {"deletionTimestamp": _CREATED_MS, "dataChange": True}
    table.commit([{"remove": {"path": path, **removed}} for path in paths])


def _sizes(url: str) -> dict[str, int]:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT name, pg_total_relation_size(name::regclass) FROM unnest(%s::text[]) AS name",
            [list(TABLES)],
        ).fetchall()
    return dict(rows)
