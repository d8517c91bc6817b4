"""What creations leave that died: found in folders of no table, and never anybody's files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltasql

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})
KILLED = """
import os, signal, sys
import pyarrow as pa
import deltasql
from deltasql.lake import new_table
new_table.create = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
with deltasql.connect(sys.argv[1], location=sys.argv[2]) as lake:
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    lake.create_table("sales.orders", data=rows, partition_by=["day"])
"""


@pytest.fixture
def lake(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as found:
        yield found


def age(folder: Path, days: int) -> None:
    """Make all files of a folder as old as that."""
    then = time.time() - days * 86_400
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def test_a_creation_that_was_killed(lake, sqlite_url, tmp_path):
    root = tmp_path / "lake"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, sqlite_url, str(root)], check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = sorted((root / "sales/orders").rglob("*.parquet"))
    assert len(left) == 2
    assert lake.leftovers() == [], "it may still be written"
    # The next one goes elsewhere: the folder is not empty.
    table = lake.create_table("sales.orders", data=ROWS)
    age(root, days=30)
    (found,) = lake.leftovers()
    assert found.location == str(root / "sales/orders")
    assert (found.files, found.bytes) == (2, sum(path.stat().st_size for path in left))
    assert lake.leftovers(age=timedelta(days=60)) == []
    assert lake.leftovers(age="60 days") == []
    assert all(path.exists() for path in left), "nothing is deleted"
    assert table.scan().to_arrow().num_rows == 2


def test_everything_else_is_somebodys(lake, tmp_path):
    root = tmp_path / "lake"
    live = lake.create_table("live", data=ROWS, partition_by=["day"])
    live.overwrite(ROWS)
    lake.create_table("gone", data=ROWS)
    lake.drop_table("gone")
    write_deltalake(root / "foreign/table", ROWS)
    (root / "notes").mkdir()
    (root / "notes/readme.parquet").write_bytes(b"x")
    name = "part-00000-11111111-2222-3333-4444-555555555555-c000.snappy.parquet"
    for folder in ("live/orphans", "foreign/table/x", ".hidden", "a/_b"):
        (root / folder).mkdir(parents=True)
        (root / folder / name).write_bytes(b"x")
    age(root, days=30)
    assert lake.leftovers() == []
    # One young file, and the folder is still being written.
    for folder in ("left/day=a", "left/day=b", "left/_change_data"):
        (root / folder).mkdir(parents=True)
        (root / folder / name).write_bytes(b"x")
    age(root / "left/day=a", days=30)
    assert lake.leftovers() == []
    age(root / "left", days=30)
    assert [item.location for item in lake.leftovers()] == [str(root / "left")]
    # A write that has gone on for longer may be the one that writes it.
    with lake.presence.writing():
        lake.presence.beat()
        assert [item.files for item in lake.leftovers()] == [3]
