"""Upkeep that dies at any of its steps: before or after a message to the database or the bucket.

Between two of them nothing happens that anybody else could see.
"""

from __future__ import annotations

import itertools
import json
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import psycopg

import deltasql
from deltasql.errors import CommitError, DeltaSqlError, ValidationError
from deltasql.lake.table import Table
from tests.maintenance.dying import die

_MESSAGES = ((psycopg.Connection, "wait"), *((obstore, name) for name in ("put", "delete", "copy")))


@dataclass(frozen=True, slots=True)
class Job:
    """What to do, and after how many messages to die; `told` is written by who lives on."""

    url: str
    location: str
    settings: Mapping[str, str]
    table: str
    verb: str
    given: Any
    at: int
    told: Path

    def run(self) -> None:
        """Do it, in a process of its own."""
        with deltasql.connect(self.url, location=self.location, settings=self.settings) as lake:
            table = lake.table(self.table)
            messages = _die_at(self.at)
            failure = None
            try:
                _VERBS[self.verb](table, self.given)
            except (DeltaSqlError, FileNotFoundError) as error:
                failure = None if _is_refusal(error) else traceback.format_exc()
            self.told.write_text(json.dumps([next(messages), failure]))


def _die_at(last: int) -> itertools.count[int]:
    """Of two messages that are one step, this dies before the first or after the second."""
    numbers, lock = itertools.count(), threading.Lock()

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                number = next(numbers)
            if number == last and last % 2 == 0:
                die()
            found = real(*args, **kwargs)
            if number == last:
                die()
            return found

        return call

    for owner, name in _MESSAGES:
        setattr(owner, name, counted(getattr(owner, name)))
    return numbers


def _is_refusal(error: BaseException) -> bool:
    """Whether a writer came in between, as may happen to everybody."""
    if isinstance(error, CommitError):
        return True
    return isinstance(error, ValidationError) and "under way" in str(error)


def _vacuum(table: Table, seconds: float) -> None:
    table.vacuum(
        timedelta(seconds=seconds),
        dry_run=False,
        enforce_retention_duration=False,
        clock_margin=timedelta(0),
    )


def _expire(table: Table, seconds: float) -> None:
    table.expire(timedelta(seconds=seconds), dry_run=False, enforce_retention_duration=False)


def _purge(table: Table, _: object) -> None:
    table._lake.drop_table(table.name, purge=True)


def purge_again(lake: deltasql.Lake, name: str, table_id: int) -> None:
    """Finish what a purge that was killed anywhere has left."""
    with suppress(deltasql.errors.TableNotFoundError):
        lake.drop_table(name)
    with suppress(deltasql.errors.TableNotFoundError):
        lake.purge(table_id)


_VERBS: dict[str, Callable[[Table, Any], object]] = {
    "vacuum": _vacuum,
    "expire": _expire,
    "optimize": lambda table, _: table.optimize(target_size=2000),
    "sort": lambda table, _: table.optimize(zorder_by=["id"]),
    "reorg": lambda table, _: table.reorg(),
    "restore": lambda table, version: table.restore(version),
    "purge": _purge,
}
