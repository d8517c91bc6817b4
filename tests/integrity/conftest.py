"""A table with a bit of everything, and hands that damage its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.delta_log.names import checkpoint_name

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
INTERVAL = 4


def rows(*ids: int, day: str = "d0") -> pa.Table:
    return pa.table({"id": list(ids), "day": [day] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def lake(store_url: str, tmp_path: Path) -> Iterator[Any]:
    """A lake on each database in turn."""
    with deltasql.connect(store_url, location=(tmp_path / "lake").as_uri()) as opened:
        yield opened


def make(lake: Any, name: str = "t", **properties: str) -> Any:
    """Versions 0 to 9 of every kind of action, mirrored, with checkpoints at 4 and 8."""
    table = lake.create_table(
        name,
        SCHEMA,
        partition_by=["day"],
        properties={
            "delta.checkpointInterval": str(INTERVAL),
            "delta.enableChangeDataFeed": "true",
            **properties,
        },
    )
    for number in range(4):
        table.append(rows(number, day=f"d{number % 2}"), app_id="app", app_version=number)
    table.overwrite(rows(20, day="d0"), where="day = 'd0'")
    table.commit([{"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}}])
    (file,) = [item for item in table.snapshot().files().to_pylist() if "day=d0" in item["path"]]
    restated = {
        "path": file["path"],
        "partitionValues": {"day": "d0"},
        "size": file["size"],
        "modificationTime": 1,
        "dataChange": False,
    }
    table.commit([{"add": restated}])
    change = {"path": "_change_data/c.parquet", "partitionValues": {"day": "d0"}, "size": 1}
    table.commit([{"cdc": {**change, "dataChange": False}}])
    table.append(rows(30, day="d2"))
    assert table.version == 9
    lake.mirror.run(once=True)
    return table


def damage(lake: Any, statement: str) -> None:
    """Change rows by hand, as nobody should."""
    with lake.store.locked([]) as log:
        log.execute(statement)


def ids(table: Any) -> list[int]:
    return sorted(table.snapshot().scan().to_arrow()["id"].to_pylist())


def log_folder(table: Any) -> Path:
    return Path(table.location.removeprefix("file://")) / "_delta_log"


def mirrored(table: Any) -> dict[str, bytes]:
    """Every object of a table's log."""
    folder = log_folder(table)
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


@pytest.fixture
def make_table() -> Callable[..., Any]:
    return make


def checkpoint(table: Any, version: int) -> Path:
    return log_folder(table) / checkpoint_name(version)
