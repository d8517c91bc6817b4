"""What the worker's hourly look, and `doctor`, find beyond the newest commit files."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from deltasql.lake.looking.examining import _drift
from deltasql.mirror.validation.sampling import sample
from deltasql.mirror.validation.watching import DriftWatch
from tests.mirror.conftest import SCHEMA, rows


@pytest.fixture
def with_checkpoints(open_lake):
    """A lake, and a table of 25 versions with the checkpoints of 10 and 20."""
    lake = open_lake()
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "10"})
    for number in range(24):
        table.append(rows(number))
    lake.mirror.run(once=True)
    return lake, table, Path(table.location.removeprefix("file://")) / "_delta_log"


def _looked_at(lake, table) -> str:
    told = sample(lake.store, table.objects, table.target).told
    found = DriftWatch(lake.engine, lake.store, lake.objects).look(lambda: False)
    assert found == ({table.name} if told else set())
    return told


def test_a_commit_file_lost_far_from_the_end_is_missed_from_the_list(with_checkpoints):
    lake, table, log = with_checkpoints
    lost = log / f"{3:020}.json"
    content = lost.read_bytes()
    lost.unlink()
    assert _looked_at(lake, table) == "version 3 missing"
    assert table.mirror.status().gap_versions == 1
    lake.mirror.run(once=True)
    assert lost.read_bytes() == content
    assert _looked_at(lake, table) == ""


def test_a_checkpoint_that_readers_look_for_is_written_again(with_checkpoints):
    lake, table, log = with_checkpoints
    lost = log / f"{20:020}.checkpoint.parquet"
    lost.unlink()
    with pytest.raises(Exception, match="checkpoint"):
        deltalake.DeltaTable(table.location)
    assert "_last_checkpoint points at version 20" in _looked_at(lake, table)
    assert table.mirror.status().pending_checkpoints == 1
    lake.mirror.run(once=True)
    assert deltalake.DeltaTable(table.location).version() == 24
    assert _looked_at(lake, table) == ""


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (f"{20:020}.checkpoint.parquet", b"PAR1", "the checkpoint of version 20 can't be read"),
        ("_last_checkpoint", b'{"version": 99, "size": 1}', "points at version 99"),
    ],
)
def test_what_keeps_readers_out_is_told_and_repaired_on_demand(
    with_checkpoints, name, content, told
):
    lake, table, log = with_checkpoints
    (log / name).write_bytes(content)
    assert told in _looked_at(lake, table)
    (finding,) = _drift(lake)
    assert finding.state == "problem"
    assert told in finding.finding
    table.mirror.repair()
    assert _looked_at(lake, table) == ""
