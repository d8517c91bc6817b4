"""What a table's metadata and protocol say, together."""

import json
import pickle
from dataclasses import replace
from functools import cached_property

import pytest

from deltasql.errors import LogFormatError
from deltasql.log.pruning.stats_columns import dump_stats_columns, stats_columns
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import Protocol
from deltasql.spec.schema import Primitive
from tests.unit.actions_model import SCHEMA, metadata, state

OLD = Protocol(min_reader_version=1, min_writer_version=1)


def read(found, columns=()):
    return TableState.from_json(
        version=found.version,
        in_commit_timestamp=found.in_commit_timestamp,
        metadata=codec.dumps(codec.wire_fields(found.metadata)).decode(),
        metadata_version=found.metadata_version,
        protocol=codec.dumps(codec.wire_fields(found.protocol)).decode(),
        protocol_version=found.protocol_version,
        stats_columns=dump_stats_columns(columns),
    )


def test_it_is_read_from_what_a_store_keeps():
    columns = stats_columns(SCHEMA, ["day"])
    found = read(state(by=("day",)), columns)
    assert found == replace(state(by=("day",)), stats_columns=columns)
    assert found.schema == SCHEMA
    assert found.partition_types == {"day": Primitive("date")}
    # One text is parsed once, whatever versions share it.
    assert read(state(by=("day",), version=9)).schema is found.schema


def test_a_later_version_knows_what_the_one_before_knew():
    found = state(by=("day",))
    # Whatever is cached must rest on metadata and protocol alone.
    cached = [name for name, item in vars(TableState).items() if isinstance(item, cached_property)]
    before = {name: getattr(found, name) for name in cached}
    later = found.at(found.version + 1, 99)
    assert later == replace(found, version=found.version + 1, in_commit_timestamp=99)
    assert {name: vars(later).get(name) for name in cached} == before
    fresh = replace(later)
    assert {name: getattr(fresh, name) for name in cached} == before
    assert (found.version, found.in_commit_timestamp) != (later.version, 99)


def test_it_pickles():
    found = state(by=("day",))
    assert found.schema
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"id":1}'])
def test_malformed_records_are_refused(text):
    good = json.dumps({"minReaderVersion": 1, "minWriterVersion": 2})
    with pytest.raises(LogFormatError):
        TableState.from_json(
            version=0,
            in_commit_timestamp=0,
            metadata=text,
            metadata_version=0,
            protocol=good,
            protocol_version=0,
        )


def test_a_lost_partition_column_is_noticed():
    found = replace(state(), metadata=replace(metadata(), partition_columns=("gone",)))
    with pytest.raises(LogFormatError, match="gone"):
        _ = found.partition_types


@pytest.mark.parametrize(
    ("properties", "attribute", "expected"),
    [
        ({}, "is_append_only", False),
        ({"delta_appendOnly": "true"}, "is_append_only", True),
        ({"delta_appendOnly": "TRUE"}, "is_append_only", True),
        ({}, "isolation", "WriteSerializable"),
        ({"delta_isolationLevel": "Serializable"}, "isolation", "Serializable"),
        ({"delta_isolationLevel": "SnapshotIsolation"}, "isolation", "Serializable"),
        ({}, "has_deletion_vectors", False),
        ({"delta_enableDeletionVectors": "true"}, "has_deletion_vectors", True),
        ({"delta_enableDeletionVectors": "true"}, "writes_deletion_vectors", True),
        ({"delta_enableInCommitTimestamps": "true"}, "in_commit_timestamps", True),
        ({}, "column_mapping", "none"),
        ({"delta_columnMapping_mode": "name"}, "column_mapping", "name"),
        ({"delta_columnMapping_mode": "id"}, "column_mapping", "id"),
        ({}, "row_tracking", False),
        ({"delta_enableRowTracking": "true"}, "row_tracking", True),
        ({"delta_enableRowTracking": "true"}, "has_row_ids", True),
    ],
)
def test_properties(properties, attribute, expected):
    assert getattr(state(**properties), attribute) == expected


def test_rule_41_a_property_counts_only_with_its_feature():
    on = state(
        delta_appendOnly="true",
        delta_enableDeletionVectors="true",
        delta_enableRowTracking="true",
        delta_columnMapping_mode="name",
    )
    without = replace(on, protocol=OLD)
    assert not without.is_append_only
    assert not without.writes_deletion_vectors
    assert not without.row_tracking
    assert without.column_mapping == "none"


def test_rule_41_old_vectors_are_there_when_new_ones_are_not_wanted():
    found = state(features=("deletionVectors",))
    assert found.has_deletion_vectors
    assert not found.writes_deletion_vectors


def test_rule_47_row_tracking_is_assigned_when_supported_and_not_suspended():
    supported = state(features=("rowTracking",))
    assert supported.row_tracking
    assert not supported.has_row_ids
    assert not state(features=("rowTracking",), delta_rowTrackingSuspended="true").row_tracking
