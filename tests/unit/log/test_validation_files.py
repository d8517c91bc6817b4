"""The rules that files of a commit can break: texts, paths, partition values and stats."""

import math
from dataclasses import replace

import pytest

from deltasql.log.validation.values import MAX_DEPTH, MAX_TEXT
from deltasql.spec.actions import (
    CdcFile,
    CommitInfo,
    DomainMetadata,
    Txn,
    UnknownAction,
)
from deltasql.spec.schema import StructType
from tests.unit.actions_model import STATS, add, column, metadata, remove, state, vector
from tests.unit.log.verdicts import BY_DAY, MAPPED, MAPPING, PLAIN, WITH_VECTORS, bad, good

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


# --- paths ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["a\x01b", "a\nb", "a//b", "a%2F/b", "s3://b//k", "a\x9fb"])
def test_rule_16_no_new_file_has_a_path_that_can_be_read_in_two_ways(path):
    bad(add(path), match="path")
    bad(CdcFile(path=path, size=1), match="path")
    good(remove(path))
    # A file that others wrote goes on as it is called, when it gets another vector.
    good(remove(path), add(path, deletion_vector=vector(), stats=STATS), at=WITH_VECTORS)


def test_rule_16_vectors_have_such_paths_neither():
    for odd in ({"storage_type": "p", "path_or_inline_dv": "s3://b//k"},):
        bad(add(deletion_vector=vector(**odd), stats=STATS), at=WITH_VECTORS, match="path")
        good(remove(deletion_vector=vector(**odd)), at=WITH_VECTORS)
