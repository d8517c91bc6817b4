"""Every rule of protocol-rules.md that a commit can break: an example that does, and one that
does not."""

import json
import math
from dataclasses import replace

import pytest

from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.log.validation import validate_commit
from deltasql.log.validation_values import MAX_DEPTH, MAX_TEXT
from deltasql.spec.actions import (
    CdcFile,
    CommitInfo,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Txn,
    UnknownAction,
)
from deltasql.spec.protocol import protocol_for
from deltasql.spec.schema import MapType, Primitive, StructField, StructType, render_schema
from tests.unit.actions_model import SCHEMA, STATS, add, column, metadata, remove, state, vector

PLAIN = state()
BY_DAY = state(by=("day",))
WITH_VECTORS = state(delta_enableDeletionVectors="true")
TRACKED = state(features=("rowTracking",))
MAPPED = StructType(
    tuple(
        replace(
            field,
            metadata={
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": f"col-{number}",
            },
        )
        for number, field in enumerate(SCHEMA.fields, start=1)
    )
)
MAPPING = {"delta_columnMapping_mode": "name", "delta_columnMapping_maxColumnId": "3"}


def good(*actions, at=PLAIN, **more):
    validate_commit(actions, at, **more)


def bad(*actions, at=PLAIN, match=None, error=ValidationError, **more):
    with pytest.raises(error, match=match) as caught:
        validate_commit(actions, at, **more)
    assert caught.value.remedy
    return caught.value


def first(schema=SCHEMA, *, by=(), features=(), **properties):
    """The two actions of a version 0."""
    found = state(schema, by=by, features=features, **properties)
    return found.protocol, found.metadata


# --- commits --------------------------------------------------------------------------


def test_rule_04_version_0_has_protocol_and_metadata():
    good(*first(), at=None)
    good(*first(), add(), at=None)
    bad(first()[0], at=None, match="lacks")
    bad(first()[1], at=None, match="lacks")
    bad(add(), at=None, match="lacks")


def test_rule_04_at_most_one_of_each():
    good(PLAIN.metadata, PLAIN.protocol)
    bad(PLAIN.metadata, PLAIN.metadata, match="more than one metaData")
    bad(PLAIN.protocol, PLAIN.protocol, match="more than one protocol")
    bad(CommitInfo(), CommitInfo(), match="more than one commitInfo")


def test_rule_05_required_fields():
    bad(add(partition_values=None), match="partitionValues is missing")
    bad(replace(PLAIN.metadata, format=None), match="format is missing")
    bad(add(path=None), match="path is missing")
    bad("add", match="not an action")


def test_rule_06_one_add_per_path():
    good(add("a"), add("b"))
    error = bad(add("a"), add("a"), match="added twice")
    assert error.path == "a"
    bad(add("a"), add("a", deletion_vector=vector(), stats=STATS), at=WITH_VECTORS, match="twice")


def test_rule_06_one_remove_per_path():
    good(remove("a"), remove("b"))
    bad(remove("a"), remove("a"), match="removed twice")


def test_rule_06_no_add_and_remove_of_one_file():
    bad(add("a"), remove("a"), match="added and removed")
    with_vector = add("a", deletion_vector=vector(), stats=STATS)
    good(with_vector, remove("a"), at=WITH_VECTORS)
    bad(with_vector, remove("a", deletion_vector=vector()), at=WITH_VECTORS, match="added and")


def test_rule_06_one_txn_per_application():
    good(Txn(app_id="a", version=1), Txn(app_id="b", version=1))
    bad(Txn(app_id="a", version=1), Txn(app_id="a", version=2), match="more than one txn")
    bad(Txn(app_id="", version=1), match="empty")


def test_rule_06_one_action_per_domain():
    at = state(features=("domainMetadata",))
    domain = DomainMetadata(domain="mine", configuration="{}")
    good(domain, replace(domain, domain="yours"), at=at)
    bad(domain, domain, at=at, match="more than one domainMetadata")
    bad(replace(domain, domain=""), at=at, match="empty")


def test_rule_08_unknown_actions_and_fields_are_tolerated():
    good(UnknownAction("later", {"a": [1, None, 2.5, 10**30, {"b": "ü"}]}))
    good(add(extra={"later": {"a": 1}}, tags={"later": None}))


def test_rule_09_change_files_do_not_change_data():
    good(CdcFile(path="_change_data/a.parquet", size=1))
    bad(CdcFile(path="_change_data/a.parquet", size=1, data_change=True), match="dataChange=true")


def test_rule_09_append_only():
    at = state(delta_appendOnly="true")
    good(add(), remove("b", data_change=False), at=at)
    bad(remove(), at=at, match="can't be removed")
    lifted = metadata(delta_appendOnly="false")
    bad(remove(), lifted, at=at, match="can't be removed")
    good(lifted, at=at)
    good(remove(), at=state(delta_appendOnly="false"))


def test_rule_10_extended_metadata_is_complete():
    good(remove(extended_file_metadata=True, partition_values={}, size=1))
    bad(remove(extended_file_metadata=True, size=1), match="lacks partitionValues or size")
    bad(remove(extended_file_metadata=True, partition_values={}), match="lacks")


# --- texts and values -----------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\0b", "\0", "a\ud800b"])
def test_rule_16_texts_that_no_store_can_hold(text):
    domains = state(features=("domainMetadata",))
    bad(add(text))
    bad(remove(text))
    bad(CdcFile(path=text, size=1))
    bad(add(partition_values={"day": text}), at=state(by=("name",)))
    bad(add(partition_values={"name": text}), at=state(by=("name",)))
    bad(add(tags={"a": text}))
    bad(add(tags={text: "a"}))
    bad(add(stats='{"minValues":{"name":"' + text + '"}}'))
    bad(add(clustering_provider=text))
    bad(add(extra={"a": [{"b": text}]}))
    bad(add(extra={"a": [{text: 1}]}))
    bad(Txn(app_id=text, version=1))
    bad(DomainMetadata(domain=text, configuration=""), at=domains)
    bad(DomainMetadata(domain="d", configuration=text), at=domains)
    bad(UnknownAction("later", text))
    bad(UnknownAction(text, 1))
    bad(CommitInfo(operation=text))
    bad(CommitInfo(operation_parameters={"a": text}))
    bad(metadata(delta_x=text))
    bad(replace(PLAIN.metadata, description=text))
    bad(replace(PLAIN.metadata, schema_string=PLAIN.metadata.schema_string + text))
    bad(replace(PLAIN.protocol, writer_features=(*PLAIN.protocol.writer_features, text)))
    bad(add(deletion_vector=vector(path_or_inline_dv=text * 20), stats=STATS), at=WITH_VECTORS)


def test_rule_16_nul_hides_nowhere_in_a_schema():
    bad(metadata(StructType((column("a\0b"), column("c")))), match="NUL")
    bad(metadata(StructType((column("a", metadata={"comment": "\0"}), column("c")))), match="NUL")


def test_values_that_are_not_json():
    for value in (math.nan, math.inf, object(), {1: 2}, {1, 2}, b"a", 10**5000):
        bad(add(extra={"later": [value]}))
        bad(UnknownAction("later", value))


def test_deep_values():
    deep = 1
    for _ in range(MAX_DEPTH - 2):
        deep = [deep]
    good(add(extra={"later": deep}))
    bad(add(extra={"later": [[deep]]}), match="too deeply")
    endless = []
    endless.append(endless)
    bad(UnknownAction("later", endless), match="too deeply")
    laughs = ["ha"]
    for _ in range(40):
        laughs = [laughs, laughs]
    bad(UnknownAction("later", laughs), match="too many")


def test_huge_texts():
    good(add("a" * 1000))
    bad(add("a" * (64 * 1024 + 1)), match="too long")
    bad(UnknownAction("later", "a" * (MAX_TEXT + 1)), match="too long")
    bad(add(stats=" " * (MAX_TEXT + 1)), match="too long")


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../b", "a/%2e%2e/b", "a/", "a%00b", "./a"])
def test_rule_16_paths_that_leave_the_table(path):
    bad(add(path))
    bad(remove(path))


@pytest.mark.parametrize("path", ["a", "a%20b", "day=1/a", "s3://bucket/a", "file:///x/a", "ü"])
def test_rule_16_paths(path):
    good(add(path))


# --- partition values -----------------------------------------------------------------


def test_rule_17_all_partition_columns_and_no_others():
    good(add(partition_values={"day": "2026-11-01"}), at=BY_DAY)
    bad(add(), at=BY_DAY, match="has values for nothing")
    bad(add(partition_values={"day": None, "x": "1"}), at=BY_DAY, match="partitioned by 'day'")
    bad(add(partition_values={"day": "2026-11-01"}), match="partitioned by nothing")
    bad(CdcFile(path="a", size=1), at=BY_DAY, match="has values for nothing")


def test_rule_17_keys_are_physical_names():
    at = state(MAPPED, by=("day",), **MAPPING)
    good(add(partition_values={"col-3": "2026-11-01"}), at=at)
    bad(add(partition_values={"day": "2026-11-01"}), at=at, match="partitioned by 'col-3'")


def test_rule_17_removes_may_be_older_than_the_partitioning():
    good(remove(partition_values={"gone": "1"}), at=BY_DAY)


def test_rule_18_values_fit_their_type():
    for text in ("2026-11-01", None, "", "-4000-01-01"):
        good(add(partition_values={"day": text}), at=BY_DAY)
    for text in ("yesterday", "2026-13-01", "1"):
        error = bad(add(partition_values={"day": text}), at=BY_DAY, match="partition column 'day'")
        assert repr(text) in error.cause


# --- stats ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stats", ["{}", STATS, '{"numRecords":0}', '{"minValues":{"a":"\\u0000"}}']
)
def test_rule_19_stats(stats):
    good(add(stats=stats))


@pytest.mark.parametrize(
    "stats",
    [
        "",
        "null",
        "[]",
        "1",
        "{",
        '{"numRecords":-1}',
        '{"numRecords":1.0}',
        '{"numRecords":"1"}',
        '{"numRecords":true}',
        '{"numRecords":null}',
        '{"numRecords":NaN}',
        '{"numRecords":18446744073709551616}',
        '{"minValues":{"id":NaN}}',
        '{"minValues":[]}',
        '{"nullCount":1}',
        "[" * 100_000,
    ],
)
def test_rule_19_malformed_stats(stats):
    assert bad(add(stats=stats), match="stats").path == "a.parquet"


def test_rule_20_a_file_with_a_vector_tells_its_rows():
    good(add(deletion_vector=vector(), stats=STATS), at=WITH_VECTORS)
    bad(add(deletion_vector=vector()), at=WITH_VECTORS, match="numRecords")
    bad(add(deletion_vector=vector(), stats="{}"), at=WITH_VECTORS, match="numRecords")


# --- protocol and features ------------------------------------------------------------


def test_rule_38_malformed_protocols():
    features = tuple(sorted({*PLAIN.protocol.writer_features}))
    good(replace(PLAIN.protocol, writer_features=features))
    bad(replace(PLAIN.protocol, min_reader_version=0), match="malformed")
    bad(replace(PLAIN.protocol, min_reader_version=3), match="malformed")
    bad(replace(PLAIN.protocol, writer_features=None), match="malformed")
    bad(Protocol(min_reader_version=1, min_writer_version=2**31), match="32-bit")


def test_rule_38_features_are_not_dropped_by_accident():
    fenceless = protocol_for(SCHEMA, {}, fence=False)
    bad(fenceless, match="drops deltasql")
    good(fenceless, dropping={"deltasql"})
    at = state(delta_enableChangeDataFeed="true")
    bad(PLAIN.protocol, at=at, match="drops changeDataFeed")
    bad(PLAIN.protocol, at=at, dropping={"changeDataFeed"}, match="still needs changeDataFeed")


def test_rule_39_all_writer_features_must_be_known():
    later = replace(PLAIN.protocol, writer_features=("appendOnly", "timeMachine"))
    bad(
        add(), at=replace(PLAIN, protocol=later), match="timeMachine", error=UnsupportedFeatureError
    )
    bad(later, PLAIN.metadata, at=None, match="timeMachine", error=UnsupportedFeatureError)
    old = Protocol(min_reader_version=1, min_writer_version=2)
    good(add(), at=replace(PLAIN, protocol=old))


def test_rule_41_properties_need_their_feature():
    changed = metadata(delta_enableDeletionVectors="true")
    bad(changed, match="protocol lacks deletionVectors")
    good(changed, WITH_VECTORS.protocol, at=replace(PLAIN, protocol=WITH_VECTORS.protocol))
    protocol, _ = first()
    bad(protocol, metadata(StructType((column("t", "timestamp_ntz"),))), at=None, match="lacks")


def test_rule_41_vectors_need_their_feature():
    bad(add(deletion_vector=vector(), stats=STATS), match="lacks deletionVectors")
    good(
        add(deletion_vector=vector(), stats=STATS),
        at=state(features=("deletionVectors",)),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"storage_type": "x"},
        {"storage_type": ""},
        {"path_or_inline_dv": ""},
        {"path_or_inline_dv": "short"},
        {"path_or_inline_dv": "../../" + "a" * 20},
        {"storage_type": "p", "path_or_inline_dv": "s3://b/../c"},
        {"size_in_bytes": -1},
        {"cardinality": -1},
        {"offset": -1},
        {"max_row_index": -1},
        {"extra": {"later": math.nan}},
    ],
)
def test_rule_49_malformed_vectors(changes):
    bad(add(deletion_vector=vector(**changes), stats=STATS), at=WITH_VECTORS)


def test_rule_49_vectors():
    inline = vector(storage_type="i", path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0")
    absolute = vector(storage_type="p", path_or_inline_dv="s3://bucket/a.bin", offset=4)
    good(add(deletion_vector=inline, stats=STATS), at=WITH_VECTORS)
    good(add(deletion_vector=absolute, stats=STATS), at=WITH_VECTORS)


def test_negative_sizes_and_times():
    bad(add(size=-1), match="negative")
    bad(add(modification_time=-1), match="negative")
    bad(remove(size=-1), match="negative")
    bad(remove(deletion_timestamp=-1), match="negative")
    bad(CdcFile(path="a", size=-1), match="negative")


def test_rule_14_system_domains_belong_to_features():
    clustering = DomainMetadata(domain="delta.clustering", configuration="{}")
    bad(clustering, match="lacks domainMetadata")
    bad(clustering, at=state(features=("domainMetadata",)), match="can't be changed")
    good(clustering, at=state(features=("clustering",)))
    other = DomainMetadata(domain="delta.later", configuration="{}")
    bad(other, at=state(features=("clustering",)), match="can't be changed")


def test_rule_47_row_ids_need_row_tracking():
    good(add(base_row_id=0, default_row_commit_version=1, stats=STATS), at=TRACKED)
    good(add(stats=STATS), at=TRACKED)
    bad(add(base_row_id=0), match="has row ids")
    bad(remove(default_row_commit_version=0), match="has row ids")
    bad(add(base_row_id=-1), at=TRACKED, match="negative")
    bad(add(), at=TRACKED, match="numRecords")


def test_rule_47_enabled_row_tracking_names_its_columns():
    ids = "delta.rowTracking.materializedRowIdColumnName"
    versions = "delta.rowTracking.materializedRowCommitVersionColumnName"
    on = metadata(delta_enableRowTracking="true")
    bad(on, at=TRACKED, match="materializedRowIdColumnName is missing")
    named = {**on.configuration, ids: "_row-id", versions: "_row-version"}
    good(replace(on, configuration=named), at=TRACKED)
    bad(replace(on, configuration={**named, versions: "ID"}), at=TRACKED, match="taken")


def test_rule_48_clustering_excludes_partitioning():
    bad(*first(by=("day",), features=("clustering",)), at=None, match="can't be partitioned")
    good(*first(features=("clustering",)), at=None)


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
