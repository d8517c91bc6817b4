"""Rules of features: times, change files, catalogs, names."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import (
    ValidationError,
)
from deltasql.spec.actions import CdcFile, CommitInfo
from tests.mirror.rules.log_actions import (
    SCHEMA,
    actions,
    add,
    checkpoint,
    only,
)

# --- features -----------------------------------------------------------------------------


def test_rule_45_times_are_in_the_first_line_and_grow(lake, table):
    for number in range(20):
        table.commit([add(str(number))])
    times = []
    for version in range(21):
        kind, info = actions(table, version)[0]
        assert kind == "commitInfo"
        times.append(info["inCommitTimestamp"])
    assert times == sorted(set(times))
    with pytest.raises(deltasql.ValidationError):
        table.commit([CommitInfo(in_commit_timestamp=1), add("x"), CommitInfo()])


def test_rule_46_times_do_not_depend_on_when_the_mirror_wrote(lake, table):
    table.mirror.pause()
    table.commit([add("a")])
    committed = table.snapshot(1).timestamp.timestamp()
    time.sleep(0.1)
    table.mirror.resume()
    lake.mirror.run(once=True)
    assert only(table, 1, "commitInfo")[0]["inCommitTimestamp"] == round(committed * 1000)


def test_rule_46_times_in_commits_can_not_be_left_out(lake):
    with pytest.raises(ValidationError, match="in-commit timestamps"):
        lake.create_table("old", SCHEMA, properties={"delta.enableInCommitTimestamps": "false"})


def test_rule_50_change_files_are_in_commits_and_not_in_checkpoints(lake):
    table = lake.create_table(
        "cdf",
        SCHEMA,
        properties={"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "2"},
    )
    table.commit([add("a")])
    table.commit([add("b"), CdcFile(path="_change_data/c", size=1)])
    lake.mirror.run(once=True)
    assert only(table, 2, "cdc")[0]["dataChange"] is False
    assert {kind for kind, _ in checkpoint(table, 2)} == {"protocol", "metaData", "add"}


def test_rule_51_catalog_managed_tables_are_refused(lake, table):
    protocol = table.snapshot().protocol
    managed = replace(
        protocol,
        min_reader_version=3,
        reader_features=("catalogManaged",),
        writer_features=tuple(sorted({*protocol.writer_features, "catalogManaged"})),
    )
    with pytest.raises(deltasql.DeltaSqlError):
        table.commit([managed])
    assert table.version == 0
    assert "deltasql" in protocol.writer_features, "the fence keeps others out instead"


def test_rule_55_data_files_have_names_of_their_own(lake, table):
    rows = pa.table({"id": [1]})
    for _ in range(3):
        table.append(rows)
    table.overwrite(rows)
    paths = [only(table, version, "add")[0]["path"] for version in range(1, 5)]
    assert len(set(paths)) == 4
    assert all(table.objects.head(path) is not None for path in paths), "old ones are vacuum's"
