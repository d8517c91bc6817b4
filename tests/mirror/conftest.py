"""A lake whose mirror can be looked at, damaged and repaired."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.delta_log.names import commit_name
from deltasql.testing.faulty_store import Fault, FaultyStore

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
# Quick enough to see five failures; a test that means the default says so.
QUICK = {
    "mirror.retry_backoff_base": "10ms",
    "mirror.sync_timeout": "2s",
    "mirror.checkpoints": "worker",
}


def rows(*ids: int, day: str = "2026-11-01") -> pa.Table:
    return pa.table({"id": list(ids), "day": [day] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def open_lake(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_url: str
) -> Iterator[Callable[..., Any]]:
    """Opens the same lake again and again, with other settings."""
    for name in {"store_url", "postgres_url"}.intersection(request.fixturenames):
        # Before us, so that it goes after us: a publish run whose database is gone waits for it.
        request.getfixturevalue(name)
    opened = []

    def connect(url: str | None = None, **settings: Any) -> Any:
        given = QUICK | {f"mirror.{key}": value for key, value in settings.items()}
        lake = deltasql.connect(
            url or sqlite_url,
            location=(tmp_path / "lake").as_uri(),
            committer="me",
            settings=given,
        )
        opened.append(lake)
        return lake

    yield connect
    for lake in opened:
        lake.close()


@pytest.fixture
def lake(open_lake: Callable[..., Any]) -> Any:
    return open_lake()


@pytest.fixture
def any_lake(open_lake: Callable[..., Any], store_url: str) -> Any:
    """The lake on each database in turn."""
    return open_lake(store_url)


@pytest.fixture
def make_table() -> Callable[..., Any]:
    """A table with versions 0 to `versions`, mirrored, with its checkpoints."""

    def make(lake: Any, versions: int = 3, name: str = "t", **properties: str) -> Any:
        table = lake.create_table(name, SCHEMA, partition_by=["day"], properties=properties)
        for number in range(1, versions + 1):
            table.append(rows(number))
        lake.mirror.run(once=True)
        return table

    return make


class Log:
    """The `_delta_log` of a table on local disk."""

    def __init__(self, table: Any) -> None:
        self.folder = Path(table.location.removeprefix("file://")) / "_delta_log"

    def __getitem__(self, name: str | int) -> Path:
        return self.folder / (commit_name(name) if isinstance(name, int) else name)

    def names(self) -> set[str]:
        return {
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if path.is_file() and not path.name.endswith(".lock")
        }

    def contents(self) -> dict[str, bytes]:
        return {name: (self.folder / name).read_bytes() for name in self.names()}

    def versions(self) -> list[int]:
        return sorted(int(name[:20]) for name in self.names() if len(name) == 25)


@pytest.fixture
def log_of() -> type[Log]:
    return Log


def landed(lake: Any) -> None:
    """Wait until no publish run is under way in this process, nor lingers with its lease."""
    deadline = time.monotonic() + 20
    while any(publisher.is_publishing for publisher in lake.engine._publishers.values()):
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Outage:
    """The object store before a table, which can be down."""

    def __init__(self, lake: Any, table: Any) -> None:
        self.is_down = False
        landed(lake)
        self._lake, self._location = lake, table.location
        self._whole = lake.objects(table.location)
        lake.objects.use(
            table.location, FaultyStore(self._whole, self._fault, sleep=lambda _: None)
        )

    def _fault(self, call: Any) -> Fault | None:
        return Fault.BEFORE if self.is_down and call.path.startswith("_delta_log") else None

    @property
    def calls(self) -> Any:
        return self._lake.objects(self._location).calls


@pytest.fixture
def outage() -> type[Outage]:
    return Outage


def statuses(table: Any) -> Any:
    """The rows of `dl_mirror_status`, by version."""
    lake = table._lake
    found = lake.store.mirror_status(table.table_id, first=0, last=table.version)
    return {record.version: record for record in found}
