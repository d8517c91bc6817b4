"""Every rule of protocol-rules.md that a commit as a whole can break: an example that does, and one
that does not; those of files and of metadata lie beside this."""

import math
from dataclasses import replace

import pytest

from deltasql.errors import UnsupportedFeatureError
from deltasql.spec.actions import (
    CdcFile,
    CommitInfo,
    DomainMetadata,
    Protocol,
    Txn,
    UnknownAction,
)
from deltasql.spec.protocol import protocol_for
from deltasql.spec.schema import StructType
from tests.unit.actions_model import SCHEMA, STATS, add, column, metadata, remove, state, vector
from tests.unit.log.verdicts import PLAIN, TRACKED, WITH_VECTORS, bad, first, good

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


def test_what_is_said_of_a_commit_has_the_kinds_that_spark_parses():
    """With `job` a text, Delta Spark fails to read the log: CANNOT_PARSE_JSON_FIELD."""
    good(CommitInfo(extra={"job": {"jobId": "7"}, "tags": {}, "userMetadata": "x", "run": 7}))
    good(CommitInfo(extra={"job": None, "version": 3}))
    for name, value in (("job", "nightly"), ("job", 7), ("tags", ["a"]), ("notebook", "n"),
                        ("operationMetrics", 1), ("version", "1"), ("version", True),
                        ("userMetadata", 5), ("clusterId", {})):  # fmt: skip
        bad(CommitInfo(extra={name: value}), match=f"{name!r} can't be")


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
    bad(add(size=2**63 - 1), match="can't have")
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


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/part-0.parquet",
        "_delta_log/00000000000000000001.json",
        "%5Fdelta_log/x.parquet",
        "s3://bucket/t/_delta_log/x.parquet",
        "_delta_log",
    ],
)
def test_data_does_not_lie_in_the_log(path):
    error = bad(add(path), match="be used in a table")
    assert "_delta_log" in error.cause
    bad(
        CdcFile(path=path, partition_values={}, size=1, data_change=False),
        match="holds logs and no data",
    )
    good(remove(path))
    good(add("_delta_logs/x.parquet"), add("my_delta_log/y.parquet"))


@pytest.mark.parametrize("name", ["sidecar", "checkpointMetadata"])
def test_actions_of_checkpoints_are_no_commit(name):
    bad(UnknownAction(name, {"version": 1}), match=f"can't have the action {name}")
