"""Made-up conditions: what delete and replace_where leave is what DuckDB says of the rows."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lake.duckdb_rows import DuckDbRows, shown
from tests.sizes import FULL

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("q", pa.int32()),
        ("day", pa.date32()),
        ("m", pa.decimal128(10, 2)),
        ("t", pa.timestamp("us", "UTC")),
        ("s", pa.string()),
        ("n", pa.struct([("i", pa.int32())])),
    ]
)
COLUMNS = (
    "id long, p string, q int, day date, m decimal(10,2), t timestamp, s string, n struct<i: int>"
)

VECTORS = "delta.enableDeletionVectors"
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "text and day, feed": (["p", "day"], {"delta.enableChangeDataFeed": "true"}),
    "number, mapped, vectors": (["q"], {VECTORS: "true", "delta.columnMapping.mode": "name"}),
    "decimal and time": (["m", "t"], {}),
}
# Spark and DuckDB read them alike.
ATOMS = (
    "p = 'a'", "p <> 'a'", "p IN ('a', 'c', NULL)", "p NOT IN ('a')", "p IS NULL", "p LIKE 'a%'",
    "q = 1", "q < 2", "NOT q >= 2", "q IS NOT DISTINCT FROM 1", "q % 2 = 0", "id < 3",
    "day = DATE '2026-01-01'", "day > DATE '2026-01-01'", "day IS NOT NULL",
    "m = 1.10", "m BETWEEN 1 AND 2.5", "m <> 1.1", "m = q",
    "t < TIMESTAMP '2026-01-01 12:00:00+00:00'", "t IS NULL",
    "t = TIMESTAMP '2026-01-01 00:00:00+00:00'",
    "s = p", "s < p", "s > 'b'", "length(s) = 1", "s IS NOT DISTINCT FROM p",
    "q = n.i", "q <> n.i", "n.i = 1", "n.i IS NULL", "true",
)  # fmt: skip
CONDITIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        inner.map(lambda text: f"NOT ({text})")
        | st.tuples(inner, inner).map(lambda two: f"({two[0]} AND {two[1]})")
        | st.tuples(inner, inner).map(lambda two: f"({two[0]} OR {two[1]})")
    ),
    max_leaves=4,
)
_TEXTS = st.sampled_from([None, "a", "ab", "c"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "p": _TEXTS,
            "q": st.sampled_from([None, 1, 2, 3]),
            "day": st.sampled_from([None, date(2026, 1, 1), date(2026, 1, 2)]),
            "m": st.sampled_from([None, Decimal("1.10"), Decimal("2.00"), Decimal("3.00")]),
            "t": st.sampled_from(
                [None, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 23, 59, tzinfo=UTC)]
            ),
            "s": _TEXTS,
            "n": st.sampled_from([None, {"i": None}, {"i": 1}, {"i": 2}]),
        }
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def tables(db):
    return {
        kind: db.lake.create_table(
            f"c.{uuid.uuid4().hex[:12]}", SCHEMA, partition_by=by, properties=properties
        )
        for kind, (by, properties) in KINDS.items()
    }


@pytest.fixture(scope="module")
def duckdb_rows():
    return DuckDbRows()


@pytest.mark.timeout(3600)
@settings(
    max_examples=120 if FULL else 8,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(sorted(KINDS)), ROWS, CONDITIONS, st.booleans())
def test_rows_outside_of_a_condition_stay(
    spark, db, tables, duckdb_rows, kind, given_rows, condition, replaces
):
    table = tables[kind]
    numbered = [{"id": number} | row for number, row in enumerate(given_rows)]
    half = len(numbered) // 2
    table.overwrite(pa.Table.from_pylist(numbered[:half], SCHEMA))
    table.append(pa.Table.from_pylist(numbered[half:], SCHEMA))

    before = table.scan().to_arrow()
    gone = duckdb_rows.satisfying(before, condition.replace("TIMESTAMP '", "TIMESTAMPTZ '"))
    kept = before.filter([number not in gone for number in before.column("id").to_pylist()])
    if replaces:
        # One of the rows that go comes back: it satisfies the condition.
        back = before.filter([number in gone for number in before.column("id").to_pylist()])[:1]
        frame = spark.createDataFrame([tuple(row.values()) for row in back.to_pylist()], COLUMNS)
        db.write(frame, table.name, "overwrite", replace_where=condition)
        kept = pa.concat_tables([kept, back])
    else:
        db.table(table.name).delete(condition)
    assert shown(table.scan().to_arrow()) == shown(kept), condition
