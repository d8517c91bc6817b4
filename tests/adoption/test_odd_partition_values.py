"""What a foreign writer put among the partition values beside the partition columns."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import pyarrow as pa

import deltasql


def test_values_of_other_columns_mean_nothing(any_lake: deltasql.Lake, tmp_path: Path):
    """Readers take these columns from the files: a delete must not take their word for all rows."""
    place = tmp_path / "foreign"
    rows = pa.table({"id": [1, 2, 3], "p": ["x", "x", "y"]})
    deltalake.write_deltalake(str(place), rows, partition_by=["p"])
    path = place / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["partitionValues"]["id"] = "1"
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))

    table = any_lake.adopt(str(place), "foreign")
    assert table.scan("id = 2").to_arrow().to_pylist() == [{"id": 2, "p": "x"}]
    assert (table.count("id = 1"), table.count("p = 'x'")) == (1, 2)
    table.delete("id = 1")
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [2, 3]
    table.overwrite(pa.table({"id": [1], "p": ["x"]}), where="id = 1")
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2, 3]
