"""Everything that a checkpoint repeats is proven first, and a checkpoint that lies is replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deltasql.errors import DamagedLogError
from deltasql.mirror.checkpoints.soundness import must_be_sound
from tests.integrity.conftest import checkpoint, damage, make, rows

FILE = "UPDATE dl_active_files SET {} WHERE version = 9"
DAMAGES = [
    FILE.format('partition_values = \'{"day":"d1"}\''),
    FILE.format("path = 'day=d2/other.parquet'"),
    FILE.format("modification_time = 5"),
    FILE.format("stats = NULL"),
    FILE.format("base_row_id = 7"),
    FILE.format("default_row_commit_version = 7"),
    FILE.format('tags = \'{"a":"b"}\''),
    FILE.format("clustering_provider = 'x'"),
    FILE.format(
        'deletion_vector = \'{"storageType":"i","pathOrInlineDv":"x","sizeInBytes":1,'
        '"cardinality":1}\''
    ),
    "UPDATE dl_txn_actions SET txn_version = 99 WHERE version = 4",
    "DELETE FROM dl_txn_actions WHERE version = 4",
    "UPDATE dl_domain_metadata SET configuration = '{ }'",
    "UPDATE dl_metadata_updates SET action = replace(action, 'nullable', 'nullablx')",
    "UPDATE dl_protocol_updates SET action = replace(action, ':7', ':8')",
]


def test_no_damage_is_taken_for_the_truth(lake):
    table = make(lake)
    for statement in DAMAGES:
        must_be_sound(lake.store, table.table_id, table.version)
        damage(lake, statement)
        with pytest.raises(DamagedLogError):
            must_be_sound(lake.store, table.table_id, table.version)
        lake.rebuild("t")


def test_a_damaged_row_gets_into_no_checkpoint(lake):
    table = make(lake)
    damage(lake, DAMAGES[0])
    while table.version < 12:
        table.append(rows(table.version))
    lake.mirror.run(once=True)
    assert not checkpoint(table, 12).exists()
    with pytest.raises(DamagedLogError):
        table.mirror.repair()
    lake.rebuild("t")
    # Or the writer's own thread has been faster.
    assert table.mirror.repair().checkpoints in ([12], [])
    assert checkpoint(table, 12).exists()
    assert table.mirror.validate().ok


def alter(path: Path, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Let a checkpoint say something else of the first action of a kind."""
    found = pq.read_table(path)
    actions = found.to_pylist()
    change(next(item[kind] for item in actions if item[kind] is not None))
    pq.write_table(pa.Table.from_pylist(actions, schema=found.schema), path)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("add", {"partitionValues": [("day", "lie")]}),
        ("add", {"stats": '{"numRecords":77}'}),
        ("add", {"modificationTime": 5}),
        ("metaData", {"schemaString": '{"type":"struct","fields":[]}'}),
        ("protocol", {"minWriterVersion": 6}),
        ("txn", {"version": 99}),
        ("domainMetadata", {"configuration": '{"a":1}'}),
    ],
)
def test_a_checkpoint_that_lies_is_replaced(lake, kind, values):
    table = make(lake)
    alter(checkpoint(table, 8), kind, lambda action: action.update(values))
    (finding,) = lake.check("t", full=True).tables["t"].findings
    assert (finding.kind, finding.version) == ("checkpoint", 8)
    report = table.mirror.repair()
    assert report.ok
    assert report.checkpoints == [8]
    assert list(report.moved_aside) == [checkpoint(table, 8).name]
    assert table.mirror.validate().ok
    assert lake.check("t", full=True).ok


def test_a_lost_dead_row_spoils_no_older_checkpoint(lake):
    table = make(lake)
    before = checkpoint(table, 4).read_bytes()
    wanted = len(DeltaTable(table.location, version=4).file_uris())
    damage(lake, "DELETE FROM dl_dead_files WHERE removed_version = 5 AND version = 1")
    report = table.mirror.repair()
    assert not report.ok
    assert "version 4" in report.errors[0]
    assert checkpoint(table, 4).read_bytes() == before
    assert len(DeltaTable(table.location, version=4).file_uris()) == wanted
    lake.rebuild("t")
    report = table.mirror.repair()
    assert report.ok
    assert report.checkpoints == []
