"""A client that kills itself at a chosen step of a commit, in a process of its own."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from threading import current_thread, main_thread
from typing import Any

import psycopg

import deltasql
from deltasql.commit import CommitRequest
from deltasql.store.duckdb.session import DuckdbSession
from deltasql.store.postgres.connections.connection import LogConnection
from tests.stress.writers import LARGE, SCHEMA, new_add, removes

NEW_TABLE = "faults.new"


def requests_of(lake: deltasql.Lake, kind: str, tag: str, base: int) -> list[CommitRequest]:
    """The same commits in every process: ids, paths and all follow from the tag."""
    names = [table.name for table in lake.tables() if table.name.startswith("stress.")]
    names = names if kind == "several" else names[:1]
    adds = [new_add(tag, number % 3) for number in range(LARGE if kind == "large" else 1)]
    made = []
    for place, name in enumerate(reversed(names)):
        table = lake.table(name)
        files = [replace(add, path=f"{tag}/{place}/{number}") for number, add in enumerate(adds)]
        old = [f"{tag}/old/{place}"] if kind == "replace" else []
        details: dict[str, Any] = {}
        if kind in ("replace", "several"):
            details = {"read_version": base, "reads": table.parse_reads("p = 0")}
        request = table.request([*removes(old, 0), *files], operation="WRITE", **details)
        transaction = f"tx-{tag}" if kind == "several" else None
        made.append(
            replace(request, commit_id=f"{tag}-{place}", committer=tag, transaction_id=transaction)
        )
    return made


def commit_and_die(
    url: str, location: str, kind: str, tag: str, base: int, step: int, when: str
) -> None:
    """Commit, but be killed before or after the step of that number."""
    fuse = Fuse(step, when)
    watch_statements(url.partition(":")[0], fuse)
    with deltasql.connect(url, location=location, committer=tag) as lake:
        requests = [] if kind == "create" else requests_of(lake, kind, tag, base)
        if requests:
            lake.states.refresh(requests[0].table_id)
        fuse.is_lit = True
        if kind == "create":
            lake.create_table(NEW_TABLE, schema=SCHEMA, partition_by=["p"])
        elif len(requests) == 1:
            lake.commits.commit(requests[0])
        else:
            lake.commits.commit_all(requests)


class Fuse:
    """Counts steps once it is lit, and is the end at one of them."""

    is_lit = False

    def __init__(self, step: int, when: str) -> None:
        self._steps = count()
        self._last = (step, when)

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*arguments: Any, **options: Any) -> Any:
            # The pool opens connections in the background, when it likes: not a step of ours.
            if not self.is_lit or current_thread() is not main_thread():
                return call(*arguments, **options)
            step = next(self._steps)
            self.burn((step, "before"))
            answer = call(*arguments, **options)
            self.burn((step, "after"))
            return answer

        return stepping

    def traced(self, _statement: str) -> None:
        if self.is_lit:
            self.burn((next(self._steps), "before"))

    def burn(self, moment: tuple[int, str]) -> None:
        if moment == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def watch_statements(dialect: str, fuse: Fuse) -> None:
    """Every statement that the store sends is a step."""
    match dialect:
        case "postgresql":
            psycopg.Connection.execute = fuse.wrapped(psycopg.Connection.execute)
            LogConnection.answer = fuse.wrapped(LogConnection.answer)
            psycopg.Copy.write = fuse.wrapped(psycopg.Copy.write)
        case "sqlite":
            connect = sqlite3.connect

            def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
                connection = connect(*arguments, **options)
                connection.set_trace_callback(fuse.traced)
                return connection

            sqlite3.connect = traced
        case "duckdb":
            # The driver's own class takes no wrapper.
            DuckdbSession.execute = fuse.wrapped(DuckdbSession.execute)
