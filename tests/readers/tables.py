"""The tables of the matrix: each is made in several versions, by public means only."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deltasql.lake.table import Table
from deltasql.spec import deletion_vectors as vectors
from deltasql.spec.actions import AddFile, DeletionVector, RemoveFile

WHEN = datetime(2026, 2, 28, 1, 2, 3, 456789)  # noqa: DTZ001
IDS = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{n}" for n in range(10)]})
SCALARS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["a b%=/é?#", "", None]),
    "long": (pa.int64(), [2**63 - 1, -(2**63), None]),
    "integer": (pa.int32(), [1, -1, None]),
    "short": (pa.int16(), [1, -1, None]),
    "byte": (pa.int8(), [127, -128, None]),
    "float": (pa.float32(), [0.5, -1.25, None]),
    "double": (pa.float64(), [0.1, -1e300, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [date(2026, 2, 28), date(1969, 7, 20), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [WHEN.replace(tzinfo=UTC), None, None]),
    "timestamp_ntz": (pa.timestamp("us"), [WHEN, WHEN.replace(year=1900), None]),
    "decimal": (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-9999999999.99"), None]),
    "wide_decimal": (pa.decimal128(38, 10), [Decimal("1E-10"), Decimal(10) ** 27, None]),
}
TYPED = pa.table(
    {
        "id": pa.array([0, 1, 2], pa.int64()),
        **{name: pa.array(values, kind) for name, (kind, values) in SCALARS.items()},
    }
)
TEXTS = [
    "plain", None, "", " ", "a b", "a=b", "a/b", "a\\b", "a%20b", "100%", "ü", "日本", "👍",
    "x:y", "q?r", "h#i", "it's", '"', "{}", "[1]", "a+b", "a&b", "..", "~", "*", "a\tb",
    "null", "NULL",
]  # fmt: skip
ODD = pa.table({"p": pa.array(TEXTS, pa.string()), "id": pa.array(range(len(TEXTS)), pa.int64())})
HIVE_NULL = pa.table({"p": ["__HIVE_DEFAULT_PARTITION__", None], "id": [0, 1]})
NTZ = pa.table({"t": pa.array([WHEN, None], pa.timestamp("us")), "id": [0, 1]})
NESTED = pa.table(
    {
        "id": pa.array([0, 1, 2], pa.int64()),
        "s": pa.array([{"x": 5, "t": {"y": "z"}}, None, {"x": None, "t": None}]),
        "l": pa.array([[1, None, 2], None, []], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1), ("n", None)], None, []], pa.map_(pa.string(), pa.int64())),
        "ls": pa.array([[{"a": [1]}, None], None, []]),
        "b": pa.array([b"\x00\xff", None, b""]),
    }
)
# Only ASCII: beyond it delta-rs and DuckDB take the characters of the spec's text for UTF-8.
BINARY = pa.table({"p": pa.array([b"ab", b"~x=", None], pa.binary()), "id": [0, 1, 2]})
BY_NAME = {"delta.columnMapping.mode": "name"}
BY_ID = {"delta.columnMapping.mode": "id"}


@dataclass(frozen=True, slots=True)
class Case:
    """A table: its rows' schema, what it is made with, and how it is filled.

    Known faults (docs/readers.md): DuckDB reads null from the columns `duck_nulls`, Polars
    from `polars_nulls`, DuckDB raises `duck_error` and Polars `polars_error`.
    """

    example: pa.Table
    fill: Callable[[Table], None]
    by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    duck_nulls: tuple[str, ...] = ()
    duck_error: str | None = None
    polars_nulls: tuple[str, ...] = ()
    polars_error: str | None = None


def appends(*tables: pa.Table) -> Callable[[Table], None]:
    """A commit for each."""

    def fill(table: Table) -> None:
        for item in tables:
            table.append(item)

    return fill


def _with_vectors(table: Table) -> None:
    """Rows deleted in place: by a vector in the log, and by two that share a file."""
    for _ in range(3):
        table.append(IDS)
    first, second, third = sorted(table.snapshot().adds(), key=lambda add: add.path)
    _delete(table, (first, vectors.inline([0, 3, 9])))
    sets = [[1], [0, 2, 4, 6, 8]]
    bitmaps = [vectors.encode(rows) for rows in sets]
    content, offsets = vectors.encode_file(bitmaps)
    name = uuid.uuid4().bytes
    table.objects.put(vectors.relative_path(name, prefix="ab"), content)
    made = [
        vectors.in_file(name, bitmap=bitmap, offset=offset, cardinality=len(rows), prefix="ab")
        for bitmap, offset, rows in zip(bitmaps, offsets, sets, strict=True)
    ]
    _delete(table, (second, made[0]), (third, made[1]))


def _delete(table: Table, *deleted: tuple[AddFile, DeletionVector]) -> None:
    actions: list[Any] = []
    for add, vector in deleted:
        stats = json.loads(add.stats or "{}") | {"tightBounds": False}
        actions += [
            RemoveFile.of(add, deletion_timestamp=add.modification_time),
            replace(add, deletion_vector=vector, stats=json.dumps(stats)),
        ]
    table.commit(actions, operation="DELETE", read_version=table.version, reads="all")


def _with_history(table: Table) -> None:
    """Overwritten in part and whole; a file removed, and added again."""
    table.append(IDS)
    table.append(IDS.slice(2, 3))
    table.overwrite(IDS.slice(0, 4), where="id < 5")
    (before,) = table.snapshot(1).adds()
    table.commit([before])
    table.commit(
        [RemoveFile.of(before, deletion_timestamp=before.modification_time)],
        read_version=table.version,
        reads="all",
    )
    table.overwrite(IDS.slice(7))
    table.commit([before])


def _without_files(table: Table) -> None:
    table.commit([{"txn": {"appId": "none", "version": 1}}])
    table.commit([{"txn": {"appId": "none", "version": 2}}])


def _all_removed(table: Table) -> None:
    table.append(IDS)
    table.overwrite(IDS.slice(0, 0))


def _widened(table: Table) -> None:
    """A column that the first files lack."""
    table.append(IDS)
    more = IDS.append_column("more", pa.array([{"x": n} for n in range(10)]))
    table.append(more, schema_mode="merge")


CASES: dict[str, Case] = {
    "plain": Case(IDS, appends(IDS, IDS.slice(3))),
    "every type": Case(TYPED, appends(TYPED, TYPED.slice(1))),
    "by every type": Case(TYPED, appends(TYPED, TYPED.slice(1)), tuple(SCALARS)),
    "by odd texts": Case(ODD, appends(ODD, ODD.slice(4, 3)), ("p",)),
    "by hive's null": Case(HIVE_NULL, appends(HIVE_NULL), ("p",), polars_nulls=("p",)),
    "by binary": Case(
        BINARY, appends(BINARY), ("p",), polars_error="unsupported data type when reading CSV"
    ),
    "nested": Case(NESTED, appends(NESTED, NESTED.slice(1))),
    "vectors": Case(IDS, _with_vectors, properties={"delta.enableDeletionVectors": "true"}),
    "mapped by name": Case(NESTED, appends(NESTED, NESTED), properties=BY_NAME),
    "mapped, by odd texts": Case(ODD, appends(ODD, ODD), ("p",), BY_NAME),
    "mapped, by every type": Case(
        TYPED, appends(TYPED, TYPED), tuple(SCALARS), BY_ID, duck_error="Failed to cast value"
    ),
    "mapped, by the second column": Case(
        IDS, appends(IDS, IDS), ("name",), BY_NAME, duck_nulls=("name",)
    ),
    "mapped, by timestamp_ntz": Case(NTZ, appends(NTZ, NTZ), ("t",), BY_NAME),
    "mapped by id": Case(NESTED, appends(NESTED, NESTED), properties=BY_ID),
    "history": Case(IDS, _with_history),
    "no files": Case(IDS, _without_files, ("name",)),
    "all removed": Case(IDS, _all_removed),
    "widened": Case(IDS, _widened),
}
# What lies beside the commit files; all of those are there.
FORMS: dict[str, dict[str, str]] = {
    "no checkpoint": {},
    "checkpoints": {"delta.checkpointInterval": "2"},
    "v2 checkpoints": {"delta.checkpointInterval": "2", "delta.checkpointPolicy": "v2"},
}
