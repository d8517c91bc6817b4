"""The words element, key and value in paths; and columns that others use by odd names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import ValidationError
from deltasql.lake.table import Table
from deltasql.log.state import TableState
from deltasql.maintenance.altering import columns
from deltasql.maintenance.altering.uses import must_be_unused, must_not_shape_the_table
from deltasql.spec.schema import (
    ArrayType,
    DeltaType,
    MapType,
    Primitive,
    StructField,
    StructType,
    render_schema,
)
from tests.maintenance.judges import seen_by_all

INT, LONG, TEXT = Primitive("integer"), Primitive("long"), Primitive("string")
WORDS = ("element", "key", "value")


def struct(**fields: DeltaType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


def words() -> StructType:
    return struct(element=INT, key=INT, value=INT)


# Where a struct with such fields may lie, and the way to it.
PLACES: dict[str, DeltaType] = {
    "s": words(),
    "s.value": struct(value=words()),
    "s.element": ArrayType(words()),
    "s.key": MapType(words(), words()),
    "s.value#map": MapType(words(), words()),
    "s.element.element": ArrayType(ArrayType(words())),
    "s.element.value": ArrayType(MapType(TEXT, words())),
    "s.value.key.element": MapType(TEXT, struct(key=ArrayType(words()))),
    "s.value.value": MapType(TEXT, struct(value=words())),
}


def type_at(kind: DeltaType, path: list[str]) -> DeltaType:
    """Written once more, for the test alone."""
    for step in path:
        if isinstance(kind, StructType):
            (kind,) = (item.type for item in kind.fields if item.name == step)
        elif isinstance(kind, ArrayType):
            assert step == "element"
            kind = kind.element
        else:
            assert isinstance(kind, MapType)
            kind = {"key": kind.key, "value": kind.value}[step]
    return kind


def leaves(kind: DeltaType, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    """Every scalar with its way, and what its field says."""
    match kind:
        case StructType():
            found: dict[tuple[str, ...], object] = {}
            for item in kind.fields:
                way = (*path, item.name)
                found |= {way: item} if isinstance(item.type, Primitive) else leaves(item.type, way)
            return found
        case ArrayType():
            return leaves(kind.element, (*path, "element"))
        case MapType():
            return leaves(kind.key, (*path, "key")) | leaves(kind.value, (*path, "value"))
        case _:
            return {path: kind}


VERBS: dict[str, Callable[[StructType, str], StructType]] = {
    "rename": lambda schema, name: columns.rename(schema, name, "new"),
    "drop": columns.drop,
    "describe": lambda schema, name: columns.describe(schema, name, "told"),
    "change": lambda schema, name: columns.change(
        schema, name, lambda item: StructField(item.name, item.type, nullable=False)
    ),
    "widen": lambda schema, name: columns.widen(schema, name, LONG),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES)
def test_verbs_change_the_field_that_is_named_and_no_other(place: str, verb: str):
    schema = struct(s=PLACES[place])
    way = place.partition("#")[0]
    before = leaves(schema)
    for word in WORDS:
        name = f"{way}.{word}"
        assert columns.find(schema, name).name == word
        after = leaves(VERBS[verb](schema, name))
        gone = before.keys() - after.keys()
        changed = {key for key in before.keys() & after.keys() if before[key] != after[key]}
        assert gone | changed == {tuple(name.split("."))}


@pytest.mark.parametrize("place", PLACES)
def test_fields_are_added_to_the_struct_that_is_named(place: str):
    schema = struct(s=PLACES[place])
    way = place.partition("#")[0]
    after = columns.add(schema, way, [StructField("x", INT)])
    assert leaves(after).keys() - leaves(schema).keys() == {(*way.split("."), "x")}
    with pytest.raises(ValidationError, match="not a struct"):
        columns.add(schema, f"{way}.value", [StructField("x", INT)])


@pytest.mark.parametrize("name", ["many.element", "map.key", "map.value", "many.value", "n.value"])
@pytest.mark.parametrize("verb", ["rename", "drop", "describe", "change"])
def test_what_an_array_or_map_holds_is_no_column(name: str, verb: str):
    schema = struct(many=ArrayType(INT), map=MapType(INT, INT), n=INT)
    with pytest.raises(ValidationError, match="no column"):
        VERBS[verb](schema, name)


def test_widening_inside_is_told_by_the_field_around():
    schema = struct(map=MapType(INT, ArrayType(INT)), s=struct(value=ArrayType(INT)))
    wider = columns.widen(columns.widen(schema, "map.value.element", LONG), "s.value.element", LONG)
    assert type_at(wider, ["map", "value", "element"]) == LONG
    assert type_at(wider, ["s", "value", "element"]) == LONG
    (change,) = columns.find(wider, "map").metadata["delta.typeChanges"]
    assert change["fieldPath"] == "value.element"
    (change,) = columns.find(wider, "s.value").metadata["delta.typeChanges"]
    assert change["fieldPath"] == "element"


def test_the_verbs_of_a_table(sqlite_url: str, tmp_path: Path):
    kind = pa.struct([("value", pa.int32()), ("unit", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("s", kind)])
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        mapped = {"delta.columnMapping.mode": "name"}
        table = lake.create_table("a.t", schema, properties=mapped)
        row = {"value": 5, "unit": "kg"}
        table.append(pa.table({"id": [1], "s": pa.array([row], kind)}))
        table.set_comment("how much", "s.value")
        table.set_nullable("s.value")
        table.rename_column("s.value", "amount")
        assert [row["s"]["amount"] for row in seen_by_all(lake, table)] == [5]
        table.rename_column("s.amount", "value")
        table.widen_type("s.value", "long", enable_type_widening=True)
        table.rename_column("s.value", "amount")
        assert table.scan().to_arrow().to_pylist() == [{"id": 1, "s": {"amount": 5, "unit": "kg"}}]
        (inner,) = (f for f in table.snapshot().state.schema.fields if f.name == "s")
        assert isinstance(inner.type, StructType)
        assert inner.type.fields[0].metadata["comment"] == "how much"
        assert "comment" not in inner.metadata
        with pytest.raises(ValidationError, match="not a struct"):
            table.add_column("s.amount.x", "int")


# --- who uses a column ----------------------------------------------------------------------

ODD = ("unit-price", "a b", "x.y", "größe", "a`b", "a,b", "select", "Mixed Case")
MAPPED = {"delta.columnMapping.mode": "name"}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture
def odd(sqlite_url: str, tmp_path: Path):
    schema = pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in ODD)])
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        table = lake.create_table("a.t", schema, properties=MAPPED)
        table.append(pa.table({"id": [1], **{name: [5] for name in ODD}}))
        yield table


def test_columns_of_constraints_stay_whatever_their_names(odd: Table):
    for number, name in enumerate(ODD):
        odd.add_constraint(f"c{number}", f"{quoted(name)} > 0")
    version = odd.version
    for name in ODD:
        for asked in (name, name.capitalize()):
            with pytest.raises(ValidationError, match="uses it"):
                odd.drop_column(asked)
            with pytest.raises(ValidationError, match="uses it"):
                odd.rename_column(asked, "new")
    assert odd.version == version
    odd.rename_column("id", "number")
    for number, name in enumerate(ODD):
        odd.drop_constraint(f"c{number}")
        odd.drop_column(name)


def test_columns_with_stats_stay(odd: Table):
    odd.set_properties({"delta.dataSkippingStatsColumns": "id,`a b`,`a,b`"})
    for name in ("id", "a b", "a,b"):
        with pytest.raises(ValidationError, match="dataSkippingStatsColumns uses it"):
            odd.drop_column(name)
    odd.drop_column("unit-price")


def test_what_can_not_be_parsed_is_searched(odd: Table):
    """Spark's expressions, as an adopted table has them."""
    state = odd.snapshot().state
    metadata = {"delta.generationExpression": "year(`a b`) + length(concat(`größe`, 'x'))"}
    fields = (*state.schema.fields, StructField("made", INT, metadata=metadata))
    state = _with_schema(state, StructType(fields))
    for name in ("a b", "größe"):
        with pytest.raises(ValidationError, match="the generated column made uses it"):
            must_be_unused(state, name, "dropped")
    must_be_unused(state, "unit-price", "dropped")
    must_be_unused(state, "made", "dropped")
    invariant = {"delta.invariants": '{"expression":{"expression":"`x.y` > 3"}}'}
    fields = (*state.schema.fields, StructField("other", INT, metadata=invariant))
    with pytest.raises(ValidationError, match="the invariant of other uses it"):
        must_be_unused(_with_schema(state, StructType(fields)), "x.y", "renamed")


def test_clustering_is_by_whole_paths(odd: Table):
    inner = struct(a=INT, b=INT)
    state = odd.snapshot().state
    state = _with_schema(state, StructType((*state.schema.fields, StructField("s", inner))))
    by = {"delta.clustering": '{"clusteringColumns":[["s","a"]]}'}
    for name in ("s", "s.a"):
        with pytest.raises(ValidationError, match="clustered"):
            must_not_shape_the_table(state, name, by)
    must_not_shape_the_table(state, "s.b", by)
    physical = odd.snapshot().state.schema.field("größe").physical_name  # type: ignore[union-attr]
    with pytest.raises(ValidationError, match="clustered"):
        must_not_shape_the_table(
            state, "größe", {"delta.clustering": json.dumps({"clusteringColumns": [[physical]]})}
        )


def _with_schema(state: TableState, schema: StructType) -> TableState:
    metadata = replace(state.metadata, schema_string=render_schema(schema))
    return replace(state, metadata=metadata)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_column("nope", enable_column_mapping=True),
        lambda table: table.rename_column("nope", "x", enable_column_mapping=True),
        lambda table: table.rename_column("id", "day", enable_column_mapping=True),
        lambda table: table.drop_column("checked", enable_column_mapping=True),
    ],
)
def test_a_change_that_is_refused_turns_no_mapping_on(lake, change):
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("checked", pa.int64())])
    table = lake.create_table("unmapped", schema)
    table.add_constraint("positive", "checked > 0")
    version = table.version
    with pytest.raises(ValidationError):
        change(table)
    assert table.version == version
    assert "delta.columnMapping.mode" not in table.snapshot().properties


def test_backticks_quote_names_with_dots(sqlite_url: str, tmp_path: Path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        mapped = {"delta.columnMapping.mode": "name"}
        t = lake.create_table("t", "p STRUCT<a: INT>, `day` INT", "day", mapped)
        t.add_column("`p.q`", "int", comment="no field of p")
        t.add_column("p.`x.y`", "int")
        t.add_column("`first`", "int", after="`day`")
        fields = t.snapshot().state.schema.fields
        assert [item.name for item in fields] == ["p", "day", "first", "p.q"]
        assert [item.name for item in fields[0].type.fields] == ["a", "x.y"]
        t.append([{"p": {"a": 1, "x.y": 2}, "day": 3, "first": 4, "p.q": 5}])
        t.rename_column("`day`", "`the.day`")
        t.rename_column("`p`.`x.y`", "`z`")
        t.set_comment("said", "`p.q`")
        t.reorder_columns(["`p.q`"])
        t.drop_column("`first`")
        (row,) = t.scan().to_arrow().to_pylist()
        assert row == {"p.q": 5, "p": {"a": 1, "z": 2}, "the.day": 3}
        assert t.snapshot().metadata.partition_columns == ("the.day",)
        with pytest.raises(ValidationError, match="nobody"):
            t.add_column("nobody.`x`", "int")
