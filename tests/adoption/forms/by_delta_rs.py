"""What delta-rs writes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.adoption.forms.writing import Rows, form, id_rows, ids


@form("every primitive type")
def _primitive(root: Path) -> Mapping[int, Rows]:
    at = dt.datetime(2026, 2, 28, 1, 2, 3, 456789)  # noqa: DTZ001 - with and without a zone
    row = {
        "s": "é\"\n", "l": 2**63 - 1, "i": -1, "h": 7, "b": -128, "f": 0.5, "d": 1e300, "t": True,
        "x": b"\x00\xff", "day": dt.date(1969, 7, 20), "m": Decimal("-999.99"),
        "at": at.replace(tzinfo=dt.UTC),
    }  # fmt: skip
    kinds = [
        pa.string(), pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.float32(), pa.float64(),
        pa.bool_(), pa.binary(), pa.date32(), pa.decimal128(5, 2), pa.timestamp("us", "UTC"),
    ]  # fmt: skip
    schema = pa.schema(list(zip(row, kinds, strict=True)))
    rows = [row, dict.fromkeys(row)]
    write_deltalake(root, pa.Table.from_pylist(rows, schema))
    return {0: rows}


@form("nested types")
def _nested(root: Path) -> Mapping[int, Rows]:
    inner = pa.struct([("a", pa.list_(pa.struct([("x", pa.int64())]))), ("b", pa.string())])
    schema = pa.schema([("n", inner), ("m", pa.map_(pa.string(), pa.int64()))])
    rows: Rows = [
        {"n": {"a": [{"x": 1}, None], "b": None}, "m": [("k", 1)]},
        {"n": None, "m": []},
    ]
    write_deltalake(root, pa.Table.from_pylist(rows, schema))
    return {0: rows}


@form("partitions with odd texts and null")
def _partitioned(root: Path) -> Mapping[int, Rows]:
    texts = ["a b", "c/d=é%20", None, "x:y", "'q'"]
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("day", pa.date32())])
    day = dt.date(2026, 1, 2)
    rows: Rows = [{"id": n, "p": text, "day": day} for n, text in enumerate(texts)]
    write_deltalake(root, pa.Table.from_pylist(rows, schema), partition_by=["p", "day"])
    return {0: rows}


@form("a schema that grows")
def _schema_change(root: Path) -> Mapping[int, Rows]:
    write_deltalake(root, ids(1))
    wider = pa.table({"id": pa.array([2], pa.int64()), "v": ["new"]})
    write_deltalake(root, wider, mode="append", schema_mode="merge")
    return {0: id_rows(1), 1: [{"id": 1, "v": None}, {"id": 2, "v": "new"}]}


@form("appends, a delete and an overwrite")
def _changes(root: Path) -> Mapping[int, Rows]:
    write_deltalake(root, ids(1, 2, 3))
    DeltaTable(root).delete("id = 2")
    write_deltalake(root, ids(4), mode="append")
    write_deltalake(root, ids(9), mode="overwrite")
    return {0: id_rows(1, 2, 3), 1: id_rows(1, 3), 2: id_rows(1, 3, 4), 3: id_rows(9)}


@form("a checkpoint and no older commits")
def _truncated(root: Path) -> Mapping[int, Rows]:
    for number in range(3):
        write_deltalake(root, ids(number), mode="append")
    DeltaTable(root).create_checkpoint()
    write_deltalake(root, ids(3), mode="append")
    for version in range(2):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    return {2: id_rows(0, 1, 2), 3: id_rows(0, 1, 2, 3)}


@form("a broken _last_checkpoint")
def _broken_pointer(root: Path) -> Mapping[int, Rows]:
    for number in range(2):
        write_deltalake(root, ids(number), mode="append")
    DeltaTable(root).create_checkpoint()
    (root / "_delta_log" / "_last_checkpoint").write_text('{"version":9,')
    return {0: id_rows(0), 1: id_rows(0, 1)}
