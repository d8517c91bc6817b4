"""The rules that metadata can break: schemas, properties, column mapping."""

import json
from dataclasses import replace

import pytest

from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.spec.actions import (
    Format,
    Metadata,
)
from deltasql.spec.schema import MapType, Primitive, StructField, StructType, render_schema
from tests.unit.actions_model import SCHEMA, column, metadata, state
from tests.unit.log.verdicts import (
    MAPPED,
    MAPPING,
    PLAIN,
    bad,
    first,
    good,
)

# --- metadata -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '"long"',
        '{"type":"struct"}',
        '{"type":"struct","fields":1}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{}]}',
        '{"type":"struct","fields":[{"name":1,"type":"long"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":"ab"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(39,0)"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(10,11)"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(' + "9" * 5000 + ',0)"}]}',
        '{"type":"struct","fields":[{"name":"","type":"long"}]}',
        '{"type":"array","elementType":"long"}',
        '{"type":"array","elementType":' * 1000,
        '{"type":"array","elementType":' * 400 + '"long"' + "}" * 400,
    ],
)
def test_rule_43_malformed_schemas(text):
    bad(
        replace(PLAIN.metadata, schema_string=text),
        error=(ValidationError, UnsupportedFeatureError),
    )


def test_rule_43_names_are_unique_without_regard_to_case():
    good(metadata(StructType((column("a"), column("b")))))
    bad(metadata(StructType((column("a"), column("A")))), match="two columns 'A'")
    inner = StructType((column("x"), column("X")))
    bad(metadata(StructType((column("a"), StructField("s", inner)))), match="two columns 'X'")
    deep = StructField("m", MapType(Primitive("string"), StructType((StructField("s", inner),))))
    bad(metadata(StructType((column("a"), deep))), match="two columns 'X'")


def test_rule_43_unknown_types_are_unsupported():
    text = '{"type":"struct","fields":[{"name":"a","type":"geometry"}]}'
    changed = replace(PLAIN.metadata, schema_string=text)
    bad(changed, match="geometry", error=UnsupportedFeatureError)


def test_rule_43_an_empty_schema_is_a_schema():
    good(metadata(StructType()))


@pytest.mark.parametrize("by", [("x",), ("day", "day"), ("day", "DAY"), ("s",), ("v",)])
def test_partition_columns_that_can_not_be(by):
    inner = StructField("s", StructType((column("x"),)))
    schema = StructType((*SCHEMA.fields, inner, column("v", "void")))
    bad(metadata(schema, by=by))


def test_partition_columns_leave_something_to_store():
    good(metadata(by=("day", "name")))
    good(metadata(StructType((column("b", "binary"), column("c"))), by=("b",)))
    bad(metadata(by=("day", "name", "id")), match="every column")


def test_rule_44_property_values_are_strings():
    good(metadata(delta_constraints_c="id > 0"), at=state(features=("checkConstraints",)))
    bad(replace(PLAIN.metadata, configuration={"a": None}), match="no value for 'a'")
    bad(replace(PLAIN.metadata, configuration={"a": 1}), match="object of strings")
    bad(replace(PLAIN.metadata, format=Format(options={"a": None})), match="no value for 'a'")


def test_metadata_odds():
    bad(replace(PLAIN.metadata, id=""), match="id is empty")
    bad(replace(PLAIN.metadata, format=Format(provider="orc")), match="Parquet")
    bad(metadata(delta_isolationLevel="SnapshotIsolation"), match="isolationLevel")
    good(metadata(delta_isolationLevel="Serializable"))


# --- column mapping -------------------------------------------------------------------


def mapped(schema=MAPPED, **changes):
    return metadata(schema, **{**MAPPING, **changes})


def test_rule_42_column_mapping():
    good(*first(MAPPED, **MAPPING), at=None)
    bad(*first(SCHEMA, **MAPPING), at=None, match="column mapping")


def test_rule_42_ids_and_names_are_unique():
    at = state(MAPPED, **MAPPING)
    one, two, three = MAPPED.fields
    same_id = replace(two, metadata={**two.metadata, "delta.columnMapping.id": 1})
    same_name = replace(two, metadata={**two.metadata, "delta.columnMapping.physicalName": "COL-1"})
    no_int = replace(two, metadata={**two.metadata, "delta.columnMapping.id": "2"})
    good(mapped(), at=at)
    for field in (same_id, same_name, no_int):
        bad(mapped(StructType((one, field, three))), at=at, match="column mapping")


def test_rule_42_the_largest_id_never_goes_down():
    at = state(MAPPED, **{**MAPPING, "delta_columnMapping_maxColumnId": "9"})
    good(mapped(delta_columnMapping_maxColumnId="9"), at=at)
    good(mapped(delta_columnMapping_maxColumnId="10"), at=at)
    bad(mapped(delta_columnMapping_maxColumnId="8"), at=at, match="column mapping")
    bad(mapped(delta_columnMapping_maxColumnId="2"), at=at, match="column mapping")
    bad(mapped(delta_columnMapping_maxColumnId="many"), at=at, match="column mapping")


def test_rule_42_the_mode_changes_only_from_none_to_name():
    plain = state(MAPPED, features=("columnMapping",))
    good(mapped(), at=plain)
    bad(mapped(delta_columnMapping_mode="id"), at=plain, match="from none to id")
    at = state(MAPPED, **MAPPING)
    bad(mapped(delta_columnMapping_mode="id"), at=at, match="from name to id")
    bad(metadata(MAPPED), at=at, match="from name to none")


def test_metadata_of_a_whole_table_round_trips():
    wire = json.loads(render_schema(MAPPED))
    assert len(wire["fields"]) == 3
    good(Metadata(id="x", schema_string=json.dumps(wire)))
