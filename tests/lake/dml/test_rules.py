"""The rules of a table hold for rows that are updated or merged: by its own expressions."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.errors import SchemaMismatchError, UnsupportedFeatureError, ValidationError
from deltasql.spec.schema import Primitive, StructField, StructType

LONG, TEXT = Primitive("long"), Primitive("string")
SOURCE = pa.table({"id": [1, 9], "n": [5, 50]})


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("rules")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


def made(lake, *fields: StructField, **properties: str) -> deltasql.Table:
    """A table with a row of id 1 and n 10; the row is older than the rules."""
    plain = (StructField("id", LONG), StructField("n", LONG))
    name = f"t{len(lake.tables())}"
    given = {key.replace("__", "."): value for key, value in properties.items()}
    table = lake.create_table(name, StructType((*plain, *fields)), properties=given)
    columns = {"id": [1], "n": [10], **{item.name: [None] for item in fields}}
    schema = pa.schema([(item.name, pa.int64()) for item in (*plain, *fields)])
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), sink)
    table.objects.put("first.parquet", sink.getvalue())
    table.commit(
        [
            deltasql.AddFile(
                path="first.parquet",
                size=len(sink.getvalue()),
                modification_time=0,
                stats='{"numRecords":1}',
            )
        ]
    )
    return table


def merged(table, **clauses):
    merge = table.merge(SOURCE, "target.id = source.id")
    merge = merge.when_matched_update(set={"n": "source.n"})
    return merge.when_not_matched_insert(values={"id": "source.id", "n": "source.n"}).execute()


def found(table):
    return sorted((tuple(r.values()) for r in table.scan().to_arrow().to_pylist()), key=repr)


def test_generated_columns_are_computed(lake):
    table = made(
        lake, StructField("g", LONG, metadata={"delta.generationExpression": "n * 2 + id"})
    )
    table.update("id = 1", {"n": "11"})
    assert found(table) == [(1, 11, 23)]
    merged(table)
    assert found(table) == [(1, 5, 11), (9, 50, 109)]
    table.update("id = 1", {"n": "7", "g": "15"})
    with pytest.raises(SchemaMismatchError, match="generation expression of g"):
        table.update("id = 1", {"g": "16"})
    assert found(table)[0] == (1, 7, 15)


def test_expressions_that_are_not_known_are_refused(lake):
    table = made(lake, StructField("g", LONG, metadata={"delta.generationExpression": "hash(n)"}))
    with pytest.raises(UnsupportedFeatureError, match="hash"):
        table.update("id = 1", {"n": "11"})
    # Rows that only go need no expression.
    assert table.delete("id = 1").metrics["numDeletedRows"] == 1


def test_defaults_are_for_inserted_rows(lake):
    table = made(
        lake,
        StructField("d", LONG, metadata={"CURRENT_DEFAULT": "40 + 2"}),
        delta__feature__allowColumnDefaults="supported",
    )
    merged(table)
    assert found(table) == [(1, 5, None), (9, 50, 42)]


def test_checks_hold_for_what_is_new(lake):
    table = made(lake, delta__constraints__small="n % 7 <> 1 AND n < 100")
    with pytest.raises(SchemaMismatchError, match="1 rows break CHECK constraint small"):
        table.update("id = 1", {"n": "8"})
    with pytest.raises(SchemaMismatchError, match="small"):
        merged(table)
    with pytest.raises(SchemaMismatchError, match="small"):
        table.update("id = 1", {"n": "NULL"})
    table.update("id = 1", {"n": "9"})
    assert found(table) == [(1, 9)]


def test_invariants_hold(lake):
    rule = json.dumps({"expression": {"expression": "i > 3"}})
    table = made(lake, StructField("i", LONG, metadata={"delta.invariants": rule}))
    with pytest.raises(SchemaMismatchError, match="invariant of i"):
        table.update("id = 1", {"i": "3"})
    table.update("id = 1", {"i": "4"})
    assert found(table) == [(1, 10, 4)]


def test_not_null_and_lengths_hold(lake):
    table = lake.create_table(
        "strict",
        StructType(
            (
                StructField("id", LONG, nullable=False),
                StructField("s", TEXT, metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
            )
        ),
    )
    table.append(pa.table({"id": [1], "s": ["abc"]}))
    with pytest.raises(SchemaMismatchError, match="must have a value"):
        table.update("id = 1", {"id": "NULL"})
    with pytest.raises(SchemaMismatchError, match="too long"):
        table.update("id = 1", {"s": "concat(s, 'd')"})
    assert found(table) == [(1, "abc")]


def test_identity_columns_keep_their_numbers(lake):
    numbers = {"delta.identity.start": 1, "delta.identity.step": 1,
               "delta.identity.allowExplicitInsert": False}  # fmt: skip
    table = made(lake, StructField("k", LONG, metadata=numbers))
    table.update("id = 1", {"n": "11"})
    with pytest.raises(ValidationError, match="identity"):
        table.update("id = 1", {"k": "5"})
    merged(table)
    assert found(table) == [(1, 5, None), (9, 50, 1)]


def test_append_only_tables_refuse(lake):
    table = made(lake, delta__appendOnly="true")
    with pytest.raises(ValidationError, match="append-only"):
        table.delete("id = 1")
    assert found(table) == [(1, 10)]


def test_fields_of_structs_are_set(lake):
    schema = pa.schema(
        [("id", pa.int64()), ("s", pa.struct([("a", pa.int32()), ("b", pa.string())]))]
    )
    table = lake.create_table("structs", schema)
    table.append(pa.table({"id": [1, 2], "s": [{"a": 1, "b": "x"}, None]}, schema=schema))
    table.update("s.a = 1 OR s IS NULL", {"s.b": "concat(s.b, '!')"})
    assert found(table) == [(1, {"a": 1, "b": "x!"}), (2, {"a": None, "b": None})]
    table.update("id = 2", {"s": "named_struct('b', 'z', 'a', 7)"})
    assert found(table)[1] == (2, {"a": 7, "b": "z"})
