"""Tables whose checkpoints are compared with SQL, in every form that checkpoints have."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import deltasql
from deltasql.delta_log.checkpoint.writing import CheckpointSource
from deltasql.lake.table import Table
from deltasql.log.replay import Replay
from deltasql.spec.actions import RemoveFile
from deltasql.spec.deletion_vectors import inline
from deltasql.testing.delta_log import CheckpointActions
from tests.mirror.checkpointed import write_log
from tests.readers.tables import IDS, SCALARS, TYPED, appends
from tests.unit.delta_log.checkpoint_model import source as source_of

STRUCT = "delta.checkpoint.writeStatsAsStruct"
JSON = "delta.checkpoint.writeStatsAsJson"
V2 = "delta.checkpointPolicy"
FORMS: dict[str, dict[str, str]] = {
    "classic": {},
    "both stats": {STRUCT: "true"},
    "typed stats": {STRUCT: "true", JSON: "false"},
    "no stats": {JSON: "false"},
    "v2": {V2: "v2"},
    "v2, typed stats": {V2: "v2", STRUCT: "true", JSON: "false"},
}

# DuckDB 1.5 reads null from a mapped partition column that is not the first column.
SWAPPED = IDS.select(["name", "id"])
NESTED = pa.table(
    {
        "id": pa.array([0, 1], pa.int64()),
        "s": pa.array([{"x": 5, "t": {"y": "z"}}, None]),
        "l": pa.array([[1, 2], None]),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "b": pa.array([b"\x00\xff", None]),
    }
)


def with_vectors(table: Table) -> None:
    """Files whose rows are partly deleted, by the table's own means of a commit."""
    table.append(IDS)
    table.append(IDS)
    (first, _) = sorted(table.snapshot().adds(), key=lambda add: add.path)
    vector = inline([0, 3, 9])
    stats = json.loads(first.stats or "{}") | {"tightBounds": False}
    table.commit(
        [
            RemoveFile.of(first, deletion_timestamp=10**15),
            replace(first, deletion_vector=vector, stats=json.dumps(stats)),
        ],
        read_version=table.version,
        reads="all",
    )


def with_history(table: Table) -> None:
    """Overwritten twice, with tombstones, transactions and domains."""
    table.append(IDS, app_id="job a", app_version=5)
    table.append(IDS, app_id="job b", app_version=1)
    table.commit(
        [
            {"domainMetadata": {"domain": "kept", "configuration": '{"a":1}', "removed": False}},
            {"domainMetadata": {"domain": "gone", "configuration": "", "removed": False}},
        ]
    )
    table.commit([{"domainMetadata": {"domain": "gone", "configuration": "", "removed": True}}])
    table.overwrite(IDS.slice(0, 5), where="id < 5")
    table.append(IDS, app_id="job a", app_version=6)


def nothing(_table: Table) -> None: ...


# Features of the protocol that Polars refuses, whatever the checkpoint is like.
NOT_IN_POLARS = {"columnMapping", "v2Checkpoint"}
MAPPED = {"delta.columnMapping.mode": "name"}
TABLES: dict[str, tuple[pa.Table, tuple[str, ...], dict[str, str], Callable[[Table], None]]] = {
    "plain": (IDS, (), {}, appends(IDS, IDS.slice(3))),
    "every type": (TYPED, (), {}, appends(TYPED)),
    "nested": (NESTED, (), {}, appends(NESTED)),
    "by every type": (TYPED, tuple(SCALARS), {}, appends(TYPED)),
    "vectors": (IDS, (), {"delta.enableDeletionVectors": "true"}, with_vectors),
    "mapped": (NESTED, (), MAPPED, appends(NESTED)),
    "mapped by id": (SWAPPED, ("name",), {"delta.columnMapping.mode": "id"}, appends(SWAPPED)),
    "row ids": (IDS, (), {"delta.enableRowTracking": "true"}, appends(IDS, IDS)),
    "history": (IDS, (), {}, with_history),
    "no files": (IDS, ("name",), {}, nothing),
}


def make(
    lake: deltasql.Lake, about: str, form: str, *, fill: Callable[[Table], None] | None = None
) -> Table:
    example, by, properties, usual = TABLES[about]
    table = lake.create_table(
        f"t{uuid.uuid4().hex}",
        example.schema,
        partition_by=by,
        properties=properties | FORMS[form],
    )
    (fill or usual)(table)
    # Last, a commit without files, so that readers have to look into the checkpoint.
    table.commit([{"txn": {"appId": "last", "version": 1}}])
    return table


def replay_of(table: Table) -> Replay:
    replay = Replay()
    for change in table.changes(0):
        replay.apply(change.version, change.actions)
    return replay


def source(lake: deltasql.Lake, table: Table) -> CheckpointSource:
    """What the store has, but for tombstones: those come from a replay of the commits."""
    snapshot = table.snapshot()
    removes = replay_of(table).tombstones.values()
    return CheckpointSource(
        state=snapshot.state,
        files=snapshot.file_batches(),
        tombstones=source_of(snapshot.state, (), removes).tombstones,
        txns=lake.store.txns(table.table_id, snapshot.version),
        domains=snapshot.domains,
    )


def mirrored(lake: deltasql.Lake, table: Table) -> tuple[Path, CheckpointActions]:
    root = Path(table.location.removeprefix("file://"))
    shutil.rmtree(root / "_delta_log", ignore_errors=True)
    (last,) = lake.store.commits(table.table_id, after=table.version - 1)
    return root, write_log(root, source(lake, table), body=last.body)
