"""delta-rs: the log as files, read by the fastest reader there is without a JVM.

Only logs are made, no data files: opening a table and pruning its files never looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from bench.files import DELTA_SCHEMA, wire_adds

_TEXTS = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    [
        (
            "protocol",
            pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
    ]
)
# About as many as Delta's own writer puts into 128 MB.
_ROW_GROUP = 200_000


def make_table(
    path: Path, adds: Iterable[dict[str, Any]], *, per_commit: int, checkpoint_every: int | None
) -> None:
    """Write the log of a table by hand, `per_commit` files a commit.

    Checkpoints are delta-rs's own work: after every `checkpoint_every` commits, and 0 means
    one after the last commit only.
    """
    log = path / "_delta_log"
    log.mkdir(parents=True)
    _write(log, 0, _birth())
    version = 0
    for version, commit in enumerate(_chunks(adds, per_commit), start=1):
        _write(log, version, [_info(version, "WRITE"), *({"add": add} for add in commit)])
        if checkpoint_every and version % checkpoint_every == 0:
            DeltaTable(path).create_checkpoint()
    if checkpoint_every == 0:
        DeltaTable(path).create_checkpoint()


def make_checkpoint(path: Path, files: int) -> None:
    """Write the log of a table that begins at a checkpoint: commits of so many files take long."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    protocol, metadata = (next(iter(action.items())) for action in _birth()[1:])
    first = pa.Table.from_pylist(
        [{name: _as_arrow(value)} for name, value in (protocol, metadata)], _CHECKPOINT
    )
    count = 2 + files
    with pq.ParquetWriter(log / f"{1:020d}.checkpoint.parquet", _CHECKPOINT) as writer:
        writer.write_table(first)
        for chunk in _chunks(wire_adds(0, files), _ROW_GROUP):
            rows = [{"add": _as_arrow(add)} for add in chunk]
            writer.write_table(pa.Table.from_pylist(rows, _CHECKPOINT))
    _write(log, 1, [_info(1, "WRITE")])
    (log / "_last_checkpoint").write_bytes(orjson.dumps({"version": 1, "size": count}))


def _as_arrow(value: Any) -> Any:
    """Maps as pyarrow takes them."""
    maps = {"partitionValues", "options", "configuration"}
    return {
        key: list(item.items())
        if key in maps
        else _as_arrow(item)
        if isinstance(item, dict)
        else item
        for key, item in value.items()
    }


def open_as_arrow(path: Path) -> pa.Table:
    """Open a table and hand out all of its files with partition values and statistics."""
    return pa.table(DeltaTable(path).get_add_actions(flatten=False))


def open_and_prune(path: Path, where: str) -> list[str]:
    """Open a table and list the files that may hold rows that satisfy a predicate."""
    return DeltaTable(path).file_uris(file_pruning_predicate=where)


def _birth() -> list[dict[str, Any]]:
    return [
        _info(0, "CREATE TABLE"),
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "6ac8ae3e-1f4c-4a3e-9b55-6c1d4f4b4c11",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": DELTA_SCHEMA,
                "partitionColumns": ["day"],
                "configuration": {},
                "createdTime": 1_770_000_000_000,
            }
        },
    ]


def _info(version: int, operation: str) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": 1_770_000_000_000 + version,
            "operation": operation,
            "operationParameters": {"mode": "Append"},
            "engineInfo": "bench",
        }
    }


def _write(log: Path, version: int, actions: Iterable[dict[str, Any]]) -> None:
    lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
    (log / f"{version:020d}.json").write_bytes(lines)


def _chunks(items: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk
