"""What callers write is what is stored: dicts, texts in SQL, numbers beside texts, identities."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake import Schema as DeltaSchema
from deltalake.schema import ArrayType, PrimitiveType, VariantType
from deltalake.schema import StructType as DeltaStruct

import deltasql
from deltasql.errors import (
    DeltaSqlError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.spec.schema import Primitive

AB = pa.schema([("a", pa.int64()), ("b", pa.string())])
LATER = [{"a": 1}, {"a": 2, "b": "hello"}]


@pytest.fixture
def lake(tmp_path):
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", location=str(tmp_path / "lake")) as made:
        yield made


def rows(table):
    return sorted(table.scan().to_arrow().to_pylist(), key=str)


def _append(lake, table, given):
    table.append(given)


def _collect(lake, table, given):
    with table.appender() as appender:
        appender.append(given)


def _transact(lake, table, given):
    with lake.transaction() as tx:
        tx.table(table.name).append(given)


def _merge(lake, table, given):
    merging = table.merge(given, "target.a = source.a")
    merging.when_not_matched_insert_all().execute()


WAYS = [
    _append,
    _collect,
    _transact,
    _merge,
    lambda _, table, given: table.overwrite(given),
    lambda lake, table, given: lake.create_or_replace_table(table.name, data=given),
]


@pytest.mark.parametrize("write", WAYS)
def test_dicts_have_the_columns_of_all_of_them(lake, write):
    table = lake.create_table("t", AB)
    write(lake, table, LATER)
    assert rows(table) == [{"a": 1, "b": None}, {"a": 2, "b": "hello"}]


def test_a_column_of_a_later_dict_is_new_or_refused(lake):
    table = lake.create_table("t", AB)
    given = [{"a": 3}, {"a": 4, "nope": "x"}]
    with pytest.raises(SchemaMismatchError, match="nope"):
        table.append(given)
    table.append(given, schema_mode="merge")
    assert rows(table)[1] == {"a": 4, "b": None, "nope": "x"}


ZONED = datetime(2026, 1, 1, 5, tzinfo=UTC)
MIXED = [
    [{}],
    [{"a": 1}, {"a": "x"}],
    [{"a": 1}, 3],
    [{"a": 1}, None],
    [{1: 2}],
    [{"a": 2**63}],
    [{"a": date(2026, 1, 1)}, {"a": ZONED}],
    [{"a": ZONED.replace(tzinfo=None)}, {"a": ZONED}],
    [{"a": {"k": [ZONED]}}, {"a": {"k": [date(2026, 1, 1)]}}],
    [{"a": 1}, {"A": 2}],
    [pa.record_batch({"a": [1]}), 3],
    [pa.record_batch({"a": [1]}), pa.record_batch({"b": ["x"]})],
    ({"a": n} for n in range(2)),
]


@pytest.mark.parametrize("given", MIXED)
def test_what_is_no_table_of_rows_is_refused(lake, given):
    table = lake.create_table("t", AB)
    with pytest.raises((ValidationError, SchemaMismatchError)):
        table.append(given)
    assert table.version == 0


# --- texts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (r"s = 'a\nb'", r"a\nb"),
        (r"s = 'a\\nb'", "a\nb"),
        (r"s = r'a\nb'", "a\nb"),
        (r"lower(s) = 'a\nb'", r"a\nb"),
        (r"s IN ('a\nb', 'it\'s')", r"a\nb"),
        (r"s LIKE 'a\\\\%'", "a\nb"),
    ],
)
def test_texts_have_the_escapes_of_spark(lake, condition, kept):
    table = lake.create_table("t", data=pa.table({"s": ["a\nb", r"a\nb"]}))
    if "lower" not in condition:
        assert table.scan(where=f"NOT ({condition})").to_arrow().to_pylist() == [{"s": kept}]
    table.delete(condition)
    assert rows(table) == [{"s": kept}]


def test_a_default_and_a_value_have_backslashes_as_in_spark(lake):
    fields = [
        pa.field("i", pa.int64()),
        pa.field("s", pa.string(), metadata={"CURRENT_DEFAULT": r"'C:\temp'"}),
        pa.field("g", pa.string(), metadata={"delta.generationExpression": r"concat(s, '\\')"}),
    ]
    table = lake.create_table(
        "t", pa.schema(fields), properties={"delta.constraints.c": r"s <> 'x\ty'"}
    )
    table.append([{"i": 1}])
    assert rows(table) == [{"i": 1, "s": "C:\temp", "g": "C:\temp\\"}]
    table.update("i = 1", new_values={"s": r"x\ty'\'"})
    assert rows(table) == [{"i": 1, "s": r"x\ty'\'", "g": "x\\ty'\\'\\"}]
    with pytest.raises(SchemaMismatchError, match="CHECK"):
        table.append([{"i": 2, "s": "x\ty"}])


@pytest.mark.parametrize("text", [r"'a\'", r"'\uD800'", r"'\0'", r"E'\n'", "$$a$$"])
def test_texts_that_spark_would_not_read_are_refused(lake, text):
    table = lake.create_table("t", data=[{"s": "a"}])
    for condition in (f"s = {text}", f"upper(s) = {text}"):
        with pytest.raises(ValidationError):
            table.delete(condition)
    with pytest.raises(ValidationError):
        table.scan(where=f"s = {text}").to_arrow()


# --- a text beside a number -------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        "nullif(i, '6.6') IS NULL",
        "greatest(i, '7.6') = 8",
        "least(i, '7.6') = 8",
        "coalesce('6.6', i) = 7",
        "nvl('6.6', i) = 7",
        "if(i = 6, '6.6', i) = 7",
        "i IN ('6.6', 7)",
        "i BETWEEN '6.6' AND '8'",
        "CASE i WHEN '6.6' THEN true END",
        "date_add(DATE '2026-01-01', '1.6') > DATE '2026-01-02'",
    ],
)
def test_no_text_is_rounded(lake, condition):
    table = lake.create_table("t", data=pa.table({"i": [6, 7, 8]}))
    with pytest.raises(DeltaSqlError):
        table.delete(condition)
    assert table.version == 0


def test_no_text_is_rounded_where_it_is_set(lake):
    table = lake.create_table("t", data=pa.table({"i": [6, 7, 8]}))
    with pytest.raises(ValidationError, match="evaluated"):
        table.update("i = 6", {"i": "CASE WHEN i = 6 THEN '6.6' ELSE i END"})
    table.update("i = 6", {"i": "CASE WHEN i = 6 THEN '9' ELSE i END"})
    assert rows(table) == [{"i": 7}, {"i": 8}, {"i": 9}]


# --- identity columns -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "start", "step"),
    [
        (pa.int64(), "1", "0"),
        (pa.int64(), "x", "1"),
        (pa.int64(), "1", "1.5"),
        (pa.int64(), str(2**63), "1"),
        (pa.int64(), "1", "true"),
        (pa.string(), "1", "1"),
        (pa.int32(), "1", "1"),
    ],
)
def test_an_identity_column_that_can_not_number_rows_is_refused(lake, kind, start, step):
    told = {"delta.identity.start": start, "delta.identity.step": step}
    schema = pa.schema([("a", pa.int64()), pa.field("id", kind, metadata=told)])
    for data in (None, [{"a": 1}]):
        with pytest.raises(ValidationError, match="identity"):
            lake.create_table("t", schema, data=data)
    assert not list(lake.tables())


def test_schemas_of_deltalake_are_taken_as_they_are(lake):
    """In Arrow, a variant would be a struct of binaries, and nanoseconds would pass for micro."""
    struct = DeltaStruct([Field("x", PrimitiveType("timestamp_ntz"), metadata={"comment": "c"})])
    fields = [
        Field("id", PrimitiveType("integer"), nullable=False),
        Field("v", VariantType()),
        Field("s", ArrayType(struct, contains_null=False)),
    ]
    given = DeltaSchema(fields)
    table = lake.create_table("t", given)
    assert json.loads(table.snapshot().metadata.schema_string) == json.loads(given.to_json())
    assert "variantType" in table.snapshot().protocol.reader_features
    grown = lake.create_table("grown", "a INT")
    grown.add_columns(fields[1:])
    grown.add_columns(DeltaSchema([Field("n", PrimitiveType("short"))]))
    kinds = [item.type for item in grown.snapshot().state.schema.fields]
    assert kinds[1] == Primitive("variant")
    assert kinds[3] == Primitive("short")
    nanos = DeltaSchema([Field("at", PrimitiveType("timestamp_nanos"))])
    with pytest.raises(UnsupportedFeatureError, match="timestamp_nanos"):
        lake.create_table("nanos", nanos)
    copied = lake.create_table("mapped", given, properties={"delta.columnMapping.mode": "name"})
    theirs = DeltaTable(copied.location).schema()
    names = lake.create_table("again", theirs).snapshot().metadata.schema_string
    assert "columnMapping" not in names
