"""Generated, default and identity columns, and rules of any kind, of rows that are appended."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import (
    MetadataChangedError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.spec.schema import Primitive, StructField, StructType

LONG, TEXT, DATE = Primitive("long"), Primitive("string"), Primitive("date")
DEFAULTS = {"delta.feature.allowColumnDefaults": "supported"}


def identity(start: int = 1, step: int = 1, *, explicit: bool = False, name: str = "k"):
    return StructField(
        name,
        LONG,
        metadata={
            "delta.identity.start": start,
            "delta.identity.step": step,
            "delta.identity.allowExplicitInsert": explicit,
        },
    )


GENERATED = StructField("g", LONG, metadata={"delta.generationExpression": "id * 2"})
DEFAULT = StructField("d", TEXT, metadata={"CURRENT_DEFAULT": "concat('a', 'b')"})


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("computed")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


def made(lake, *fields: StructField, **more) -> deltasql.Table:
    schema = StructType((StructField("id", LONG), *fields))
    more["properties"] = {**DEFAULTS, **more.get("properties", {})}
    return lake.create_table(f"t{len(lake.tables())}", schema, **more)


def rows(*ids: int, **columns) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})


def found(table) -> list[tuple]:
    return sorted((tuple(r.values()) for r in table.scan().to_arrow().to_pylist()), key=repr)


def mark(table, name: str = "k"):
    item = table.snapshot().state.schema.field(name)
    return item.metadata.get("delta.identity.highWaterMark")


def test_what_rows_lack_is_filled(lake):
    table = made(lake, GENERATED, DEFAULT)
    table.append(rows(1, 2))
    table.append(rows(3, g=[6], d=["mine"]))
    with pytest.raises(SchemaMismatchError, match="generation expression of g"):
        table.append(rows(4, g=[9]))
    # A null that is given is no default.
    table.append(rows(5, d=pa.nulls(1, pa.string())))
    assert found(table) == [(1, 2, "ab"), (2, 4, "ab"), (3, 6, "mine"), (5, 10, None)]
    table.overwrite(rows(7), where="id < 3 OR id = 7")
    assert found(table) == [(3, 6, "mine"), (5, 10, None), (7, 14, "ab")]
    with pytest.raises(SchemaMismatchError, match="no column x"):
        table.append(rows(8, x=[1]))
    table.append(rows(8, x=[1]), schema_mode="merge")
    assert (8, 16, "ab", 1) in found(table)


def test_streams_and_partitions_and_their_order(lake):
    day = StructField("day", LONG, metadata={"delta.generationExpression": "id % 2"})
    table = made(lake, day, partition_by=["day"])
    with lake.transaction() as tx:
        tx.table(table.name).append(iter(rows(*range(500)).to_batches(max_chunksize=100)))
        tx.table(table.name).append(rows(1000))
    assert table.count("day = 0") == 251
    plain = made(lake, GENERATED)
    plain.append(rows(*range(300_000)))
    kept = plain.scan().to_arrow().column("id").to_pylist()
    assert kept == list(range(300_000))


def test_filled_tables_and_appenders(lake):
    table = made(lake, GENERATED, identity(), data=rows(5, 6))
    assert found(table) == [(5, 10, 1), (6, 12, 2)]
    assert (table.version, mark(table)) == (0, 2)
    with table.appender() as appender, pytest.raises(UnsupportedFeatureError, match="identity"):
        appender.append(rows(1))
    other = made(lake, GENERATED, DEFAULT)
    with other.appender(max_delay=0.01) as appender:
        appender.append(rows(1))
    assert found(other) == [(1, 2, "ab")]


def test_numbers_are_handed_out(lake):
    table = made(lake, identity(10, 5), identity(-1, -2, explicit=True, name="down"))
    table.append(rows(1, 2))
    table.append(rows(3, down=[77]))
    table.append(rows(4))
    assert found(table) == [(1, 10, -1), (2, 15, -3), (3, 20, 77), (4, 25, -5)]
    assert (mark(table), mark(table, "down")) == (25, -5)
    with pytest.raises(SchemaMismatchError, match="'k' can't be written"):
        table.append(rows(5, k=[1]))
    table.overwrite(rows(9), where="id = 9 OR id < 4")
    assert found(table) == [(4, 25, -5), (9, 30, -7)]
    assert deltasql.AddFile in {type(action) for action in table.changes(1)[0].actions}
    with lake.transaction() as tx:
        tx.table(table.name).append(rows(10))
        tx.table(table.name).append(rows(11))
    assert (mark(table), mark(table, "down")) == (40, -11)


def test_numbers_end(lake):
    table = made(lake, identity(2**63 - 2))
    table.append(rows(1, 2))
    with pytest.raises(ValidationError, match="no numbers left"):
        table.append(rows(3))
    assert mark(table) == 2**63 - 1


def test_numbers_are_unique_however_many_write(lake):
    table = made(lake, identity())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: table.append(rows(n, n), max_commit_retries=100), range(12)))
    numbers = sorted(row[1] for row in found(table))
    assert numbers == list(range(1, 25))
    with pytest.raises(MetadataChangedError):
        _raced(lake, table)


def test_merges_number_what_they_insert(lake):
    table = made(lake, identity(100), identity(1, explicit=True, name="by"), DEFAULT)
    table.append(rows(1))
    source = rows(1, 2, 3, 4, b=[7, 7, 8, 8])
    result = (
        table.merge(source, "target.id = source.id")
        .when_matched_update(set={"d": "DEFAULT"})
        .when_not_matched_insert("source.b = 7", {"id": "source.id", "by": "-5", "d": "'x'"})
        .when_not_matched_insert(None, {"id": "source.id", "by": "DEFAULT", "d": "default"})
        .execute()
    )
    assert result.metrics["numTargetRowsInserted"] == 3
    after = {row[0]: row[1:] for row in found(table)}
    assert after[1] == (100, 1, "ab")
    assert after[2][1:] == (-5, "x")
    assert {row[0] for row in after.values()} == {100, 101, 102, 103}
    assert after[3][2] == "ab"
    assert mark(table) == 103
    # Numbers may be left out, and never come twice.
    assert after[3][1] != after[4][1]
    assert mark(table, "by") >= max(after[3][1], after[4][1]) > 1
    merge = table.merge(source, "target.id = source.id")
    merge = merge.when_not_matched_insert(None, {"id": "source.id", "k": "1"})
    with pytest.raises(ValidationError, match="GENERATED ALWAYS"):
        merge.execute()
    with pytest.raises(ValidationError, match="keep their number"):
        table.update("id = 1", {"by": "DEFAULT"})


def test_generated_columns_that_some_clauses_set(lake):
    table = made(lake, GENERATED)
    merge = table.merge(rows(1, 2), "target.id = source.id")
    merge = merge.when_not_matched_insert("source.id = 1", {"id": "source.id", "g": "2"})
    merge.when_not_matched_insert(None, {"id": "source.id"}).execute()
    assert found(table) == [(1, 2), (2, 4)]


def test_defaults_are_set_by_their_name(lake):
    table = made(lake, DEFAULT, GENERATED)
    table.append(rows(1, d=["x"]))
    table.update("id = 1", {"d": "DEFAULT", "g": "default"})
    assert found(table) == [(1, "ab", 2)]


def test_rules_of_any_kind_hold(lake):
    table = made(lake, properties={"delta.constraints.odd": "id % 2 = 1 AND length('x') = 1"})
    table.append(rows(1, 3))
    with pytest.raises(SchemaMismatchError, match="1 rows break CHECK constraint odd"):
        table.append(rows(5, 6))
    rule = json.dumps({"expression": {"expression": "abs(i) > 3"}})
    other = made(lake, StructField("i", LONG, metadata={"delta.invariants": rule}))
    other.append(rows(1, i=[-4]))
    with pytest.raises(SchemaMismatchError, match="invariant of i"):
        other.append(rows(2, i=[3]))
    with pytest.raises(SchemaMismatchError, match="invariant of i"):
        other.overwrite(rows(2))
    unknown = made(lake, properties={"delta.constraints.no": "hash(id) = 1"})
    with pytest.raises(UnsupportedFeatureError, match="hash"):
        unknown.append(rows(1))
    assert (found(table), found(other)) == ([(1,), (3,)], [(1, -4)])


def test_inner_expressions_are_refused(lake):
    inner = StructType((StructField("x", LONG, metadata={"delta.generationExpression": "1"}),))
    table = lake.create_table("inner", StructType((StructField("s", inner), GENERATED)))
    with pytest.raises(UnsupportedFeatureError, match="inside 's'"):
        table.append(pa.table({"s": [{"x": 1}]}))


def _raced(lake, table) -> None:
    with lake.transaction() as tx:
        tx.table(table.name).append(rows(1))
        table.append(rows(2))
