"""New metadata and old files: what can be read on, and what can't."""

from dataclasses import replace

import pytest

from deltasql.log.validation.changes import breaking_change, turns_on_row_ids
from deltasql.spec.schema import ArrayType, MapType, Primitive, StructField, StructType
from deltasql.spec.type_widening import is_widening
from tests.unit.actions_model import SCHEMA, column, state
from tests.unit.log.verdicts import MAPPED, MAPPING

WIDENS = {"delta_enableTypeWidening": "true"}
LONG, TEXT = Primitive("long"), Primitive("string")


def table(*fields, **more):
    return state(StructType(fields), **more)


def fault(after, before):
    found = breaking_change(after, before)
    assert found is None or (found.remedy and found.problem)
    return "" if found is None else found.cause


def changed(kind, to, **more):
    """What is said when a column of one type becomes one of another."""
    return fault(table(StructField("a", to), **more), table(StructField("a", kind), **more))


def recorded(old, new, path=""):
    place = {"fieldPath": path} if path else {}
    return {"delta.typeChanges": [{"fromType": old, "toType": new, **place}]}


def test_what_may_change():
    old = state()
    wider = StructType((*SCHEMA.fields, column("more"), column("text", "string")))
    assert fault(state(wider, mine="1"), old) == ""
    assert fault(state(StructType(SCHEMA.fields[::-1])), old) == ""
    assert fault(table(column("id")), table(column("id", nullable=False))) == ""
    assert fault(table(column("a", "string")), table(column("a", "void"))) == ""
    assert fault(table(column("a")), table(column("a"), column("b", "void"))) == ""


def test_without_mapping_columns_keep_their_names_and_stay():
    assert "'ID' is written 'id'" in fault(table(column("ID")), table(column("id")))
    assert "'name' is missing" in fault(state(StructType(SCHEMA.fields[:1])), state())
    inner = StructType((column("x"), column("y")))
    assert "'a.X' is written 'x'" in changed(inner, StructType((column("X"), column("y"))))
    assert "'a.y' is missing" in changed(inner, StructType((column("x"),)))
    assert "'a.y' is missing" in changed(ArrayType(inner), ArrayType(StructType((column("x"),))))


def test_partition_columns_stay():
    assert "partitioned by" in fault(state(by=("day",)), state())
    assert "partitioned by" in fault(state(), state(by=("day",)))
    assert "partitioned by" in fault(state(by=("day", "name")), state(by=("day",)))
    assert fault(state(by=("day", "name")), state(by=("name", "day"))) == ""
    upper = replace(SCHEMA.fields[2], name="DAY")
    after = state(StructType((*SCHEMA.fields[:2], upper)), by=("DAY",))
    assert "partitioned by day" in fault(after, state(by=("day",)))


def test_a_partition_column_may_be_renamed():
    mapped = state(MAPPED, by=("day",), **MAPPING)
    renamed = replace(MAPPED.fields[2], name="date_of_it")
    after = state(StructType((*MAPPED.fields[:2], renamed)), by=("date_of_it",), **MAPPING)
    assert fault(after, mapped) == ""


def test_no_column_becomes_not_null():
    old = table(column("a"))
    assert "NOT NULL" in fault(table(column("a", nullable=False)), old)
    assert "'b' is NOT NULL" in fault(table(column("a"), column("b", nullable=False)), old)
    inner, stricter = (StructType((column("x", nullable=flag),)) for flag in (True, False))
    assert "'a.x'" in changed(inner, stricter)
    assert "elements" in changed(ArrayType(LONG), ArrayType(LONG, contains_null=False))
    assert "values" in changed(MapType(TEXT, LONG), MapType(TEXT, LONG, value_contains_null=False))
    assert changed(ArrayType(LONG, contains_null=False), ArrayType(LONG)) == ""
    # Of a new struct there is none yet that could lack it.
    assert fault(table(column("a"), StructField("s", stricter)), old) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *[("long", "string"), ("string", "long"), ("long", "integer"), ("double", "float")],
        *[("long", "double"), ("timestamp", "timestamp_ntz"), ("date", "timestamp")],
        *[("decimal(10,2)", "decimal(9,2)"), ("decimal(10,2)", "decimal(11,4)")],
        *[("integer", "decimal(9,0)"), ("long", "decimal(19,0)"), ("string", "binary")],
    ],
)
def test_types_that_are_no_wider(old, new):
    assert not is_widening(Primitive(old), Primitive(new))
    field = column("a", new, metadata=recorded(old, new))
    assert "can't change" in fault(table(field, **WIDENS), table(column("a", old), **WIDENS))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *[("byte", "short"), ("byte", "long"), ("integer", "long"), ("float", "double")],
        *[("integer", "double"), ("date", "timestamp_ntz"), ("integer", "decimal(10,0)")],
        *[("long", "decimal(20,0)"), ("short", "decimal(12,2)")],
        *[("decimal(10,2)", "decimal(12,4)"), ("decimal(10,2)", "decimal(11,2)")],
    ],
)
def test_types_that_are_wider(old, new):
    assert is_widening(Primitive(old), Primitive(new))
    before = table(column("a", old), **WIDENS)
    told = column("a", new, metadata=recorded(old, new))
    assert fault(table(told, **WIDENS), before) == ""
    assert "delta.typeChanges" in fault(table(column("a", new), **WIDENS), before)
    assert "enableTypeWidening" in fault(table(told), before)


def test_wider_types_far_in():
    before = table(StructField("a", MapType(TEXT, ArrayType(Primitive("integer")))), **WIDENS)
    kind = MapType(TEXT, ArrayType(LONG))
    told = StructField("a", kind, metadata=recorded("integer", "long", "value.element"))
    assert fault(table(told, **WIDENS), before) == ""
    elsewhere = replace(told, metadata=recorded("integer", "long", "value"))
    assert "delta.typeChanges" in fault(table(elsewhere, **WIDENS), before)
    assert "a map to a struct" in changed(kind, StructType(()))
    assert "an array to long" in changed(ArrayType(LONG), LONG)


def test_mapped_columns_are_known_by_their_ids():
    old = state(MAPPED, **MAPPING)
    one, two, three = MAPPED.fields
    renamed = replace(two, name="other")
    assert fault(state(StructType((three, one, renamed)), **MAPPING), old) == ""
    assert fault(state(StructType((one, three)), **MAPPING), old) == ""
    text = replace(one, type=TEXT)
    assert "can't change" in fault(state(StructType((text, two, three)), **MAPPING), old)
    moved = replace(one, metadata={**one.metadata, "delta.columnMapping.physicalName": "col-9"})
    assert "physical name" in fault(state(StructType((moved, two, three)), **MAPPING), old)
    again = replace(one, metadata={**one.metadata, "delta.columnMapping.id": 9})
    more = {**MAPPING, "delta_columnMapping_maxColumnId": "9"}
    assert "physical name" in fault(state(StructType((again, two, three)), **more), old)


def test_mapping_begins_with_the_names_in_the_files():
    physical = [
        replace(
            item,
            metadata={**item.metadata, "delta.columnMapping.physicalName": SCHEMA.fields[i].name},
        )
        for i, item in enumerate(MAPPED.fields)
    ]
    assert fault(state(StructType(tuple(physical)), **MAPPING), state()) == ""
    assert "physical name 'id'" in fault(state(MAPPED, **MAPPING), state())
    key = "delta.columnMapping.physicalName"
    physical[0] = replace(physical[0], metadata={**physical[0].metadata, key: "ID"})
    assert "is written 'id'" in fault(state(StructType(tuple(physical)), **MAPPING), state())


def test_when_rows_begin_to_have_ids():
    names = {
        "delta_rowTracking_materializedRowIdColumnName": "i",
        "delta_rowTracking_materializedRowCommitVersionColumnName": "v",
    }
    on = state(delta_enableRowTracking="true", **names)
    supported = state(features=("rowTracking",))
    assert turns_on_row_ids(on, state())
    assert turns_on_row_ids(on, supported)
    assert not turns_on_row_ids(on, on)
    assert not turns_on_row_ids(supported, state())
