"""Footers that are damaged or made up: typed errors or rows, and never the end of a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.data.reading.footer import open_parquet
from tests.data.damaged_footers import rows
from tests.sizes import FULL

FILES = 4_000 if FULL else 80
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["scan", "adopt"])
def test_no_footer_ends_the_process(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-m", "tests.data.damaged_footers", kind, str(tmp_path), "1"]
    done = subprocess.run(
        [*command, str(FILES)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200
    )
    said = done.stdout.splitlines()
    assert done.returncode == 0, (said[-1:], done.stderr[-2000:])
    assert "'read'" in said[-1], said[-1]
    assert "Error'" in said[-1], said[-1]


def test_statistics_are_those_of_arrow() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(rows(), sink, row_group_size=7)
    file = open_parquet(pa.BufferReader(sink.getvalue()))
    count = file.metadata.num_columns
    assert count == 6
    for index, group in enumerate(file.statistics(range(count))):
        for column, found in group.items():
            chunk = file.metadata.row_group(index).column(column)
            assert found.nulls == chunk.statistics.null_count
            if chunk.path_in_schema == "id":
                low, high = (int.from_bytes(item, "little") for item in (found.low, found.high))
                assert (low, high) == (chunk.statistics.min, chunk.statistics.max)
            if chunk.path_in_schema == "name":
                bounds = found.low.decode(), found.high.decode()
                assert bounds == (chunk.statistics.min, chunk.statistics.max)
