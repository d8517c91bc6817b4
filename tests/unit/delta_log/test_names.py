"""Names of the log's objects, made and understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.delta_log.names import (
    LAST_CHECKPOINT,
    LogKind,
    LogName,
    checkpoint_name,
    commit_name,
    crc_name,
    parse_name,
    sidecar_name,
    v2_checkpoint_name,
)
from deltasql.errors import ValidationError

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
VERSIONS = st.integers(0, 2**63 - 1)


def test_rule_1_versions_have_20_digits():
    assert commit_name(7) == "00000000000000000007.json"
    assert crc_name(2**63 - 1) == "09223372036854775807.crc"
    assert checkpoint_name(10) == "00000000000000000010.checkpoint.parquet"
    assert v2_checkpoint_name(10, UUID) == f"00000000000000000010.checkpoint.{UUID}.parquet"
    assert sidecar_name(UUID) == f"_sidecars/{UUID}.parquet"


@given(VERSIONS)
def test_what_is_made_is_understood(version):
    made = {
        commit_name(version): LogKind.COMMIT,
        checkpoint_name(version): LogKind.CHECKPOINT,
        v2_checkpoint_name(version, UUID): LogKind.V2_CHECKPOINT,
        crc_name(version): LogKind.CHECKSUM,
    }
    for name, kind in made.items():
        found = parse_name(name)
        assert found is not None
        assert (found.kind, found.version, found.name) == (kind, version, name)


V = "00000000000000000004"
W = "00000000000000000006"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            f"{V}.checkpoint.{UUID}.json",
            {"kind": LogKind.V2_CHECKPOINT, "version": 4, "unique": UUID},
        ),
        (
            f"{V}.checkpoint.0000000002.0000000003.parquet",
            {"kind": LogKind.CHECKPOINT_PART, "version": 4, "part": 2, "parts": 3},
        ),
        (f"{V}.{W}.compacted.json", {"kind": LogKind.COMPACTION, "version": 4, "end": 6}),
        (
            f"_staged_commits/{V}.{UUID}.json",
            {"kind": LogKind.STAGED_COMMIT, "version": 4, "unique": UUID},
        ),
        ("_sidecars/any-name.parquet", {"kind": LogKind.SIDECAR, "unique": "any-name"}),
        (LAST_CHECKPOINT, {"kind": LogKind.LAST_CHECKPOINT}),
        (f".{V}.json.crc", {"kind": LogKind.HADOOP_CHECKSUM, "of": f"{V}.json"}),
        ("._last_checkpoint.crc", {"kind": LogKind.HADOOP_CHECKSUM, "of": LAST_CHECKPOINT}),
        (
            "_sidecars/.x.parquet.crc",
            {"kind": LogKind.HADOOP_CHECKSUM, "of": "_sidecars/x.parquet"},
        ),
    ],
)
def test_names_that_others_write(name, expected):
    assert parse_name(name) == LogName(name=name, **expected)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "4.json",
        f"{V}.json.tmp",
        f"{V}.checkpoint.parquet.tmp",
        f"{V}.checkpoint.0000000004.0000000003.parquet",
        f"{V}.checkpoint.0000000000.0000000003.parquet",
        f"{V}.checkpoint.abc.parquet",
        # Rule 37: the end comes after the start.
        f"{W}.{V}.compacted.json",
        f"{V}.{V}.compacted.json",
        "_sidecars/a/b.parquet",
        f"{V}.json\n",
        "99999999999999999999.json",
        "_delta_log/00000000000000000004.json",
        "١" * 20 + ".json",
    ],
)
def test_other_names_are_nothing(name):
    assert parse_name(name) is None


def test_impossible_names_are_refused():
    with pytest.raises(ValidationError, match="not a version"):
        commit_name(-1)
    with pytest.raises(ValidationError, match="not a UUID"):
        v2_checkpoint_name(1, "0000000001.0000000002")
    with pytest.raises(ValidationError, match="not a UUID"):
        sidecar_name("../x")
