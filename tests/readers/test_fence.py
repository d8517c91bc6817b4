"""Whoever writes Delta by themselves can't write a fenced table, and can read it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltasql.spec.features import FENCE
from tests.parts.spark import SparkError
from tests.readers.engines import place

ROWS = pa.table({"id": [1, 2]})
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def fenced(lake, request):
    table = lake.create_table(request.node.name, ROWS.schema)
    table.append(ROWS)
    return table


def commit_files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "_delta_log").glob("*.json")}


def test_delta_rs_refuses_to_write(fenced):
    root = place(fenced)
    before = commit_files(root)
    with pytest.raises(Exception, match=FENCE):
        write_deltalake(root, ROWS, mode="append")
    assert commit_files(root) == before


def test_delta_spark_refuses_to_write(fenced, spark):
    root = place(fenced)
    before = commit_files(root)
    with pytest.raises(SparkError, match=f"(?s)UNSUPPORTED_FEATURES_FOR_WRITE.*{FENCE}"):
        spark.append(root)
    assert commit_files(root) == before
    assert spark.read(root)["count"] == 2


def test_without_the_fence_spark_can_write(lake, spark):
    """What becomes of it, deltasql reports as drift; here only that the fence is what stops.

    delta-rs 1.6.6 still refuses: it can't write in-commit timestamps.
    """
    table = lake.create_table("open", ROWS.schema, properties={"deltasql.fence": "false"})
    table.append(ROWS)
    root = place(table)
    with pytest.raises(Exception, match="InCommitTimestamp"):
        write_deltalake(root, ROWS, mode="append")
    spark.append(root)
    assert max(commit_files(root)) == f"{2:020}.json"
