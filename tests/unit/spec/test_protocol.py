"""Features and protocols: what tables need, what they imply, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.spec.actions import DomainMetadata, Protocol
from deltasql.spec.features import FEATURES, FENCE, features_of, needed_features, stored_properties
from deltasql.spec.protocol import (
    arrow_writer_computes,
    arrow_writer_obstacle,
    check_readable,
    check_well_formed,
    check_writable,
    implied_features,
    protocol_for,
    upgraded,
)
from deltasql.spec.schema import ArrayType, MapType, Primitive, StructField, StructType
from tests.unit.actions_model import SCHEMA, add, column, remove, vector

BASE = {"appendOnly", "invariants", "inCommitTimestamp"}
LEGACY = {
    2: {"appendOnly", "invariants"},
    3: {"checkConstraints"},
    4: {"changeDataFeed", "generatedColumns"},
    5: {"columnMapping"},
    6: {"identityColumns"},
}
MAPPED = {"delta.columnMapping.mode": "name"}


def protocol(reader, writer, reader_features=None, writer_features=None):
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=reader_features,
        writer_features=writer_features,
    )


# --- what a table needs ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, set()),
        ({"delta.appendOnly": "true"}, {"appendOnly"}),
        ({"delta.appendOnly": "false"}, set()),
        ({"delta.constraints.positive": "id > 0"}, {"checkConstraints"}),
        ({"delta.enableChangeDataFeed": "TRUE"}, {"changeDataFeed"}),
        ({"delta.columnMapping.mode": "name"}, {"columnMapping"}),
        ({"delta.columnMapping.mode": "id"}, {"columnMapping"}),
        ({"delta.columnMapping.mode": "none"}, set()),
        ({"delta.enableDeletionVectors": "true"}, {"deletionVectors"}),
        ({"delta.enableRowTracking": "true"}, {"rowTracking", "domainMetadata"}),
        ({"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}),
        ({"delta.checkpointPolicy": "classic"}, set()),
        ({"delta.enableTypeWidening": "true"}, {"typeWidening"}),
        ({"delta.enableInCommitTimestamps": "true"}, {"inCommitTimestamp"}),
        ({"delta.feature.clustering": "supported"}, {"clustering", "domainMetadata"}),
        ({"delta.feature.VACUUMProtocolCheck": "enabled"}, {"vacuumProtocolCheck"}),
        ({"delta.enableIcebergCompatV2": "true"}, {"icebergCompatV2", "columnMapping"}),
    ],
)
def test_properties_need_features(properties, expected):
    assert needed_features(SCHEMA, properties) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (column("c", "timestamp_ntz"), {"timestampNtz"}),
        (StructField("c", ArrayType(Primitive("timestamp_ntz"))), {"timestampNtz"}),
        (
            StructField("c", MapType(Primitive("string"), StructType((column("v", "variant"),)))),
            {"variantType"},
        ),
        (column("c", nullable=False), {"invariants"}),
        (column("c", metadata={"delta.invariants": "{}"}), {"invariants"}),
        (column("c", metadata={"delta.generationExpression": "id"}), {"generatedColumns"}),
        (column("c", metadata={"delta.identity.start": 1}), {"identityColumns"}),
        (column("c", metadata={"CURRENT_DEFAULT": "1"}), {"allowColumnDefaults"}),
        (column("c", metadata={"delta.typeChanges": []}), {"typeWidening"}),
    ],
)
def test_columns_need_features(field, expected):
    assert needed_features(StructType((field,)), {}) == expected


def test_actions_need_features():
    assert features_of([add(), remove()]) == set()
    assert features_of([add(deletion_vector=vector())]) == {"deletionVectors"}
    assert features_of([DomainMetadata(domain="d", configuration="")]) == {"domainMetadata"}


def test_an_unknown_feature_can_not_be_asked_for():
    with pytest.raises(UnsupportedFeatureError, match=r"delta\.feature\.timeMachine"):
        protocol_for(SCHEMA, {"delta.feature.timeMachine": "supported"}, fence=True)


def test_properties_of_the_protocol_are_not_stored():
    given_properties = {"delta.feature.x": "supported", "delta.minReaderVersion": "1", "a": "b"}
    assert stored_properties(given_properties) == {"a": "b"}


# --- new tables -----------------------------------------------------------------------


def test_a_plain_table_is_readable_by_everyone():
    assert protocol_for(SCHEMA, {}, fence=True) == protocol(
        1, 7, None, tuple(sorted({*BASE, FENCE}))
    )
    assert protocol_for(SCHEMA, {}, fence=False) == protocol(1, 7, None, tuple(sorted(BASE)))


def test_column_mapping_alone_needs_reader_version_2():
    found = protocol_for(SCHEMA, MAPPED, fence=False)
    assert (found.min_reader_version, found.reader_features) == (2, None)
    assert set(found.writer_features) == {*BASE, "columnMapping"}


def test_other_reader_features_need_reader_version_3():
    found = protocol_for(SCHEMA, {**MAPPED, "delta.enableDeletionVectors": "true"}, fence=False)
    assert found.min_reader_version == 3
    assert found.reader_features == ("columnMapping", "deletionVectors")
    assert set(found.reader_features) < set(found.writer_features)


def test_a_new_table_can_not_have_what_deltasql_can_not_write():
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV2") as caught:
        protocol_for(SCHEMA, {"delta.enableIcebergCompatV2": "true"}, fence=True)
    assert caught.value.features == ("icebergCompatV2",)


PROPERTIES = st.dictionaries(
    st.sampled_from(
        [f"delta.feature.{name}" for name, feature in FEATURES.items() if feature.commit]
    ),
    st.just("supported"),
)


@given(PROPERTIES, st.booleans())
def test_every_new_protocol_is_well_formed_and_enough(properties, fence):
    found = protocol_for(SCHEMA, properties, fence=fence)
    check_well_formed(found)
    check_writable(found)
    assert upgraded(found, SCHEMA, properties) is None
    assert (FENCE in found.writer_features) == (fence or f"delta.feature.{FENCE}" in properties)


# --- legacy versions and upgrades -----------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
def test_rule_39_legacy_versions_imply_features(version):
    expected = set().union(*(names for v, names in LEGACY.items() if v <= version))
    assert implied_features(protocol(1, version)) == (frozenset(), expected)
    check_writable(protocol(1, version))


def test_rule_39_reader_version_2_implies_column_mapping():
    assert implied_features(protocol(2, 5))[0] == {"columnMapping"}


def test_rule_40_an_upgrade_lists_what_was_implied():
    found = upgraded(protocol(1, 4), SCHEMA, {"delta.enableDeletionVectors": "true"})
    implied = LEGACY[2] | LEGACY[3] | LEGACY[4]
    assert found == protocol(
        3, 7, ("deletionVectors",), tuple(sorted({*implied, "deletionVectors"}))
    )


def test_rule_40_column_mapping_of_old_tables_is_listed_in_both():
    found = upgraded(protocol(2, 5), SCHEMA, {**MAPPED, "delta.enableDeletionVectors": "true"})
    assert found.reader_features == ("columnMapping", "deletionVectors")
    assert {"columnMapping", "deletionVectors", "generatedColumns"} < set(found.writer_features)


def test_an_upgrade_keeps_the_reader_version_low():
    found = upgraded(protocol(1, 2), SCHEMA, {"delta.enableChangeDataFeed": "true"})
    assert (found.min_reader_version, found.min_writer_version) == (1, 7)
    found = upgraded(protocol(1, 2), SCHEMA, MAPPED)
    assert (found.min_reader_version, found.reader_features) == (2, None)


def test_no_upgrade_where_the_protocol_is_enough():
    assert upgraded(protocol(1, 4), SCHEMA, {"delta.enableChangeDataFeed": "true"}) is None
    assert upgraded(protocol(2, 5), SCHEMA, MAPPED) is None


def test_a_preview_feature_is_enough():
    old = protocol(3, 7, ("typeWidening-preview",), ("typeWidening-preview",))
    assert upgraded(old, SCHEMA, {"delta.enableTypeWidening": "true"}) is None


def test_an_upgrade_keeps_features_it_does_not_know():
    old = protocol(1, 7, None, ("deltasql", "identityColumns"))
    found = upgraded(old, SCHEMA, {}, also=["domainMetadata"])
    assert found.writer_features == ("deltasql", "domainMetadata", "identityColumns")


@given(st.integers(1, 6), PROPERTIES)
def test_an_upgrade_drops_nothing_and_is_enough(version, properties):
    old = protocol(2 if version >= 5 else 1, version)
    new = upgraded(old, SCHEMA, properties)
    if new is None:
        return
    check_well_formed(new)
    assert implied_features(old)[0] <= implied_features(new)[0]
    assert implied_features(old)[1] <= implied_features(new)[1]
    assert upgraded(new, SCHEMA, properties) is None


# --- checks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "good",
    [
        protocol(1, 1),
        protocol(2, 5),
        protocol(1, 7, None, ()),
        protocol(2, 7, None, ("columnMapping",)),
        protocol(3, 7, (), ()),
        protocol(3, 7, ("deletionVectors",), ("appendOnly", "deletionVectors")),
        protocol(3, 7, ("timeMachine",), ("timeMachine",)),
    ],
)
def test_rule_38_well_formed(good):
    check_well_formed(good)


@pytest.mark.parametrize(
    "bad",
    [
        protocol(0, 2),
        protocol(1, 0),
        protocol(-1, 2),
        protocol(3, 7),
        protocol(1, 7),
        protocol(3, 7, (), None),
        protocol(2, 5, ("columnMapping",), None),
        protocol(1, 2, None, ("appendOnly",)),
        protocol(3, 6, (), None),
        protocol(99, 7, (), ()),
        protocol(3, 7, ("deletionVectors",), ()),
        protocol(3, 7, (), ("deletionVectors",)),
        protocol(1, 7, None, ("columnMapping",)),
    ],
)
def test_rule_38_malformed(bad):
    with pytest.raises(LogFormatError):
        check_well_formed(bad)


@pytest.mark.parametrize("name", [name for name, feature in FEATURES.items() if feature.commit])
def test_known_features_are_read_and_written(name):
    reader = (name,) if FEATURES[name].reader else ()
    check_writable(protocol(3, 7, reader, (name,)))


@pytest.mark.parametrize("name", ["timeMachine", "catalogManaged", "catalogOwned"])
def test_reading_is_refused(name):
    with pytest.raises(UnsupportedFeatureError, match=name) as caught:
        check_readable(protocol(3, 7, (name,), (name,)))
    assert caught.value.features == (name,)


@pytest.mark.parametrize("name", ["timeMachine", "icebergCompatV1", "checkpointProtection"])
def test_writing_is_refused_though_reading_is_not(name):
    found = protocol(1, 7, None, ("appendOnly", name))
    check_readable(found)
    with pytest.raises(UnsupportedFeatureError, match=name):
        check_writable(found)


@pytest.mark.parametrize(("reader", "writer"), [(4, 8), (1, 8), (99, 7)])
def test_later_versions_are_refused(reader, writer):
    with pytest.raises(UnsupportedFeatureError, match="version"):
        check_writable(protocol(reader, writer))


# --- the Arrow writer -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "word"),
    [
        (column("c", metadata={"delta.generationExpression": "id"}), "generated"),
        (column("c", metadata={"delta.identity.step": 1}), "identity"),
        (column("c", metadata={"delta.invariants": "{}"}), "invariant"),
        (column("c", metadata={"CURRENT_DEFAULT": "1"}), "default"),
    ],
)
def test_columns_that_are_computed(field, word):
    schema = StructType((column("id"), field))
    assert word in arrow_writer_computes(schema)
    assert arrow_writer_obstacle(schema, {}) is None
    inside = StructType((column("id"), StructField("s", StructType((field,)))))
    assert word in arrow_writer_obstacle(inside, {})


@pytest.mark.parametrize(
    ("field", "word"),
    [
        (column("c", "variant"), "variant"),
        (StructField("c", StructType((column("d", "void"),))), "void"),
    ],
)
def test_columns_that_arrow_can_not_write(field, word):
    assert word in arrow_writer_obstacle(StructType((column("id"), field)), {})


def test_plain_columns_are_written_from_arrow():
    assert arrow_writer_obstacle(SCHEMA, {}) is None
    assert arrow_writer_obstacle(SCHEMA, {"delta.constraints.c": "id > 0"}) is None
