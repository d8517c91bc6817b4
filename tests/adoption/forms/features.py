"""Table features and oddities of writers, line by line."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.spec import deletion_vectors as dv
from tests.adoption.forms.writing import (
    FORMS,
    IDS,
    TIME,
    Form,
    Log,
    Rows,
    added,
    form,
    id_rows,
    ids,
    metadata,
    protocol,
    remove,
)


@form("deletion vectors")
def _vectors(root: Path) -> Mapping[int, Rows]:
    features = protocol(3, 7, "deletionVectors")
    log = Log(root, features, metadata(IDS, **{"delta.enableDeletionVectors": "true"}))
    first = log.add("a.parquet", ids(0, 1, 2, 3))
    log.commit(first)
    content, (offset, other) = dv.encode_file([dv.encode([0]), dv.encode([0, 2])])
    name = bytes(range(16))
    in_file = [
        dv.in_file(name, bitmap=dv.encode(gone), offset=at, cardinality=len(gone), prefix="ab")
        for gone, at in (([0], offset), ([0, 2], other))
    ]
    place = root / "ab" / f"deletion_vector_{uuid.UUID(bytes=name)}.bin"
    place.parent.mkdir()
    place.write_bytes(content)
    vectors = [_wire(vector) for vector in (*in_file, dv.inline([0, 1, 2]))]
    steps = [{"add": {**first["add"], "deletionVector": vector}} for vector in vectors]
    for before, after in zip([first, *steps], steps, strict=False):
        log.commit(remove(before), after)
    return {
        1: id_rows(0, 1, 2, 3), 2: id_rows(1, 2, 3), 3: id_rows(1, 3), 4: id_rows(3)
    }  # fmt: skip


def _wire(vector: Any) -> dict[str, Any]:
    wire = {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline_dv,
        "offset": vector.offset,
        "sizeInBytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }
    return {key: value for key, value in wire.items() if value is not None}


def _mapped(mode: str) -> Form:
    def make(root: Path) -> Mapping[int, Rows]:
        fields = [
            {
                "name": name, "type": kind, "nullable": True,
                "metadata": {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": f"col-{number}",
                },
            }
            for number, (name, kind) in enumerate([("id", "long"), ("p", "string")], start=1)
        ]  # fmt: skip
        text = json.dumps({"type": "struct", "fields": fields})
        mapping = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}
        first = metadata(text, "p", **mapping)
        log = Log(root, protocol(2, 5), first)
        column = pa.field("col-1", pa.int64(), metadata={"PARQUET:field_id": "1"})
        data = pa.table([[1, 2]], schema=pa.schema([column]))
        log.commit(log.add("x/a.parquet", data, {"col-2": "q"}))
        # A column gets another name; files stay as they are.
        fields[0]["name"] = "number"
        text = json.dumps({"type": "struct", "fields": fields})
        log.commit({"metaData": {**first["metaData"], "schemaString": text}})
        return {
            1: [{"id": 1, "p": "q"}, {"id": 2, "p": "q"}],
            2: [{"number": 1, "p": "q"}, {"number": 2, "p": "q"}],
        }

    return make


FORMS["columns mapped by name"] = _mapped("name")
FORMS["columns mapped by id"] = _mapped("id")


@form("a change feed, txns, and a protocol that is raised")
def _change_feed(root: Path) -> Mapping[int, Rows]:
    log = Log(root, protocol(1, 4), metadata(IDS, **{"delta.enableChangeDataFeed": "true"}))
    first = log.add("a.parquet", ids(1, 2))
    log.commit(first, {"txn": {"appId": "app", "version": 3, "lastUpdated": TIME}})
    changes = log.add("_change_data/c.parquet", pa.table({"id": [2], "_change_type": ["delete"]}))
    cdc = {key: changes["add"][key] for key in ("path", "partitionValues", "size")}
    log.commit(remove(first), log.add("b.parquet", ids(1)), {"cdc": {**cdc, "dataChange": False}})
    # Features of writers only, after versions that implied them; a txn may go down.
    implied = ("appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants")
    log.commit(protocol(1, 7, *implied), {"txn": {"appId": "app", "version": 1}})
    return {0: [], 1: id_rows(1, 2), 2: id_rows(1), 3: id_rows(1)}


@form("times in commits, checksums, and Hadoop's stale ones")
def _times(root: Path) -> Mapping[int, Rows]:
    first = metadata(IDS, **{"delta.enableInCommitTimestamps": "true"})
    needed = protocol(1, 7, "inCommitTimestamp")
    log = Log(root)

    def stamped(*actions: dict[str, Any]) -> None:
        at = TIME + 1000 * len(log.commits)
        version = log.commit({"commitInfo": {"inCommitTimestamp": at, "timestamp": at}}, *actions)
        sums = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
        checksum = {**sums, "metadata": first["metaData"], "protocol": needed["protocol"]}
        log.name(version, "crc").write_text(json.dumps({**checksum, "inCommitTimestampOpt": at}))
        (log.folder / f".{version:020}.json.crc").write_bytes(b"crc\0 of another file")

    stamped(needed, first)
    stamped(log.add("a.parquet", ids(1)))
    (log.folder / "._something of a Mac").write_bytes(b"\0")
    return {0: [], 1: id_rows(1)}


@form("row ids, clustering and domains")
def _row_ids(root: Path) -> Mapping[int, Rows]:
    features = ("domainMetadata", "rowTracking", "clustering")
    properties = {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
    }
    log = Log(
        root,
        protocol(1, 7, *features),
        metadata(IDS, **properties),
        _domain("delta.clustering", clusteringColumns=[["id"]]),
    )
    numbered = {"baseRowId": 0, "defaultRowCommitVersion": 1, "clusteringProvider": "liquid"}
    file = log.add("a.parquet", ids(1, 2), tags={"ZCUBE": "x"}, **numbered)
    log.commit(file, _domain("delta.rowTracking", rowIdHighWaterMark=1), _domain("mine", a=1))
    gone = {"domainMetadata": {"domain": "mine", "configuration": "", "removed": True}}
    log.commit(gone, {"commitInfo": {"operation": "x"}})
    return {0: [], 1: id_rows(1, 2), 2: id_rows(1, 2)}


def _domain(name: str, **content: Any) -> dict[str, Any]:
    text = json.dumps(content)
    return {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}


@form("a compaction that is wrong")
def _compaction(root: Path) -> Mapping[int, Rows]:
    """Commits count; this one says that a removed file is live."""
    log = Log(root, protocol(), metadata(IDS))
    first = log.add("a.parquet", ids(1))
    log.commit(first)
    log.commit(remove(first), log.add("b.parquet", ids(2)))
    lines = [protocol(), metadata(IDS), first]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (log.folder / f"{0:020}.{2:020}.compacted.json").write_text(text)
    return {0: [], 1: id_rows(1), 2: id_rows(2)}


@form("absolute paths")
def _absolute(root: Path) -> Mapping[int, Rows]:
    log = Log(root, protocol(), metadata(IDS))
    place = root.parent / "else where" / "a.parquet"
    place.parent.mkdir()
    pq.write_table(ids(1), place)
    log.commit(added(place.as_uri(), place, 1))
    return {1: id_rows(1)}


@form("stats that say null")
def _null_stats(root: Path) -> Mapping[int, Rows]:
    log = Log(root, protocol(), metadata(IDS))
    log.commit(log.add("a.parquet", ids(1), stats="null"))
    bare = log.add("b.parquet", ids(2))
    del bare["add"]["stats"]
    log.commit(bare)
    return {0: [], 1: id_rows(1), 2: id_rows(1, 2)}


@form("a file that goes and comes back")
def _again(root: Path) -> Mapping[int, Rows]:
    log = Log(root, protocol(), metadata(IDS))
    file = log.add("a.parquet", ids(1))
    log.commit(file)
    log.commit(remove(file))
    log.commit(file)
    # Stated once more: other tags, the same file.
    log.commit({"add": {**file["add"], "tags": {"a": "b"}, "dataChange": False}})
    return {0: [], 1: id_rows(1), 2: [], 3: id_rows(1), 4: id_rows(1)}


@form("timestamps of 96 bits, by day and by time without a zone")
def _int96(root: Path) -> Mapping[int, Rows]:
    at = dt.datetime(2026, 2, 28, 1, 2, 3, 456789, tzinfo=dt.UTC)
    wall = at.replace(tzinfo=None)
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("p", pa.timestamp("us"))])
    log = Log(root, protocol(3, 7, "timestampNtz"), metadata(schema, "p"))
    rows = pa.table({"at": pa.array([at, None], pa.timestamp("us", "UTC"))})
    place = root / "a.parquet"
    pq.write_table(rows, place, use_deprecated_int96_timestamps=True)
    log.commit(added("a.parquet", place, 2, {"p": "2026-02-28 01:02:03.456789"}))
    return {1: [{"at": at, "p": wall}, {"at": None, "p": wall}]}
