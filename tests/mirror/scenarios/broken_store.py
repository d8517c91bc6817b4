"""Tables of the scenarios: what is in their logs, and faults before their store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import deltasql
from deltasql.lake.table import Table
from deltasql.spec.actions import AddFile
from deltasql.store.mirroring.interface import MirrorRecord
from deltasql.testing.faulty_store import Call, Fault, FaultyStore
from tests.mirror.conftest import landed

SCHEMA = pa.schema([("id", pa.int64())])
Connect = Callable[..., deltasql.Lake]


def add(path: str) -> AddFile:
    return AddFile(path=path, size=1, modification_time=1, stats='{"numRecords":1}')


def name(version: int, kind: str = "json") -> str:
    return f"_delta_log/{version:020}.{kind}"


def names(table: Table) -> list[str]:
    return [item.path for item in table.objects.list("_delta_log")]


def commits(table: Table) -> list[str]:
    return [path for path in names(table) if path.endswith(".json")]


def status(lake: deltasql.Lake, table: Table, version: int) -> MirrorRecord:
    (found,) = lake.store.mirror_status(table.table_id, first=version, last=version)
    return found


def broken(lake: deltasql.Lake, table: Table, schedule: Callable[[Call], Fault | None]) -> Any:
    """Put faults between a lake and the real store."""
    landed(lake)
    store = FaultyStore(table.objects, schedule)
    lake.objects.use(table.location, store)
    return store


def failing_puts(first: int = 10**9) -> Callable[[Call], Fault | None]:
    """The first writes fail."""
    left = iter(range(first))

    def choose(call: Call) -> Fault | None:
        is_write = call.verb in ("put_if_absent", "open_output")
        return Fault.BEFORE if is_write and next(left, None) is not None else None

    return choose
