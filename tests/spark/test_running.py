"""Queries under way hold the versions that they read, by whichever route Spark came to them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql
from pyspark.sql.types import LongType


def _slow(frame, folder: Path):
    """The same rows, one task of which waits until it is told to go on."""
    begun, go = str(folder / "begun"), str(folder / "go")

    @sql.udf(LongType())
    def wait(value):
        Path(begun).touch()
        while not Path(go).exists():
            time.sleep(0.05)
        return value

    return frame.select(wait("id").alias("id"))


@pytest.mark.parametrize("route", ["frame", "old frame", "with a condition", "joined"])
def test_a_query_under_way_keeps_its_files(spark, db, name, tmp_path, route):
    db.write(spark.range(3), name)
    table = db.lake.table(name)
    table.overwrite(pa.table({"id": [7]}))
    version = 0 if route == "old frame" else 1
    frame = db.read(name, version=0) if route == "old frame" else db.read(name)
    if route == "with a condition":
        frame = db.read(name, where="id > 0")
    elif route == "joined":
        frame = frame.join(spark.range(10), "id")
    found = []
    query = threading.Thread(target=lambda: found.extend(_slow(frame, tmp_path).collect()))
    query.start()
    try:
        while not (tmp_path / "begun").exists():
            assert query.is_alive()
            time.sleep(0.05)
        table.overwrite(pa.table({"id": [8]}))
        db.lake.presence.beat()
        pins = [(pin.version, pin.reason) for pin in db.lake.pins() if pin.table == name]
        assert pins == [(version, "query")]
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        snapshot = table.snapshot(version=version)
        held, files = snapshot.scan().to_arrow(), snapshot.files().num_rows
    finally:
        (tmp_path / "go").touch()
        query.join(60)
    assert sorted(row.id for row in found) == sorted(held.column("id").to_pylist())
    db.lake.presence.beat()
    assert not [pin for pin in db.lake.pins() if pin.table == name]
    assert table.vacuum(0, dry_run=False, enforce_retention_duration=False).dead == files
