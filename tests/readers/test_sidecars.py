"""Sidecars that several checkpoints name, as stock readers see them; Polars refuses the feature."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.readers.engines import DeltaRs, files_of, place

pytestmark = pytest.mark.timeout(600)

V2 = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "8"}


def test_readers_of_sidecars_that_are_named_again(lake, spark, duck):
    table = lake.create_table("sidecars", pa.schema([("id", pa.int64())]), properties=V2)
    for number in range(40):
        table.append(pa.table({"id": [number]}))
        if number == 30:
            table.delete("id = 3")
    lake.mirror.run(once=True)
    root, expected = place(table), files_of(table.snapshot().adds())
    names = [path.name for path in (root / "_delta_log").glob("*.checkpoint.*.parquet")]
    assert len(names) == 5
    # Only checkpoints can tell of these versions.
    for version in range(40):
        (root / "_delta_log" / f"{version:020d}.json").unlink()
    assert spark.files(root) == expected
    assert spark.count(root) == 39
    assert DeltaRs().files(root, None) == expected
    assert duck.files(root, None) == expected
