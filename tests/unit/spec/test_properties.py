"""Table properties: durations, kinds, and keys that are misspelt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.log.retention import (
    checkpoint_interval,
    faults,
    log_ms,
    mirror_mode,
    tombstone_ms,
    txn_ms,
)
from deltasql.spec.features import FEATURES
from deltasql.spec.intervals import DAY_MS, LONGEST_MS, parse_interval
from deltasql.spec.properties import (
    PROPERTIES,
    canonical,
    closest_key,
    fault_of,
    is_unknown,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 30 days", 30 * DAY_MS),
        ("INTERVAL 1 WEEK", 7 * DAY_MS),
        ("2 weeks 12 hours", 14 * DAY_MS + 12 * 3_600_000),
        ("  interval  1 day   2 minutes ", DAY_MS + 120_000),
        ("1 week -1 day", 6 * DAY_MS),
        ("interval + 3 seconds", 3_000),
        ("interval 1.5 seconds", 1_500),
        ("1500 milliseconds 999 microseconds", 1_500),
        ("0 days", 0),
        ("0 months 1 day", DAY_MS),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_interval(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "interval", "days", "30", "30days", "thirty days", "1 month", "interval 1 year"),
        *("-1 day", "1.5 days", "1 fortnight", "interval 3 days ago", "P30D", "30 days;", "٣ days"),
        f"{LONGEST_MS // DAY_MS + 1} days",
        "9" * 30 + " weeks",
    ],
)
def test_no_durations(text: str) -> None:
    assert parse_interval(text) is None


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_none(text: str) -> None:
    found = parse_interval(text)
    assert found is None or 0 <= found <= LONGEST_MS


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("delta.checkpointInterval", "10", "ten"),
        ("delta.checkpointInterval", "+1", "0"),
        ("delta.checkpointInterval", str(2**31 - 1), str(2**31)),
        ("delta.checkpointInterval", "1", "-1"),
        ("delta.checkpointInterval", "1", " 1"),
        ("delta.checkpointInterval", "1", "１"),
        ("delta.appendOnly", "TRUE", "yes"),
        ("delta.enableChangeDataFeed", "false", ""),
        ("delta.logRetentionDuration", "interval 1 day", "interval 1 dya"),
        ("delta.deletedFileRetentionDuration", "0 hours", ""),
        ("delta.setTransactionRetentionDuration", "365 days", "1 year"),
        ("delta.isolationLevel", "Serializable", "SnapshotIsolation"),
        ("delta.checkpointPolicy", "V2", "v3"),
        ("delta.columnMapping.mode", "name", "names"),
        ("delta.dataSkippingNumIndexedCols", "-1", "-2"),
        ("delta.autoOptimize.autoCompact", "auto", "sometimes"),
        ("delta.universalFormat.enabledFormats", "iceberg,hudi", "iceberg,iceberg"),
        ("delta.dataSkippingStatsColumns", "a, b.c", None),
        ("mirror.mode", "off", "of"),
        ("mirror.checkpoint_interval", "5", "5.0"),
        ("someone.elses", "whatever", None),
    ],
)
def test_values_of_properties(key: str, good: str, bad: str | None) -> None:
    assert fault_of(key, good) == ""
    assert bad is None or fault_of(key, bad).startswith(f"{key} must be ")


def test_keys() -> None:
    for key in ("delta.constraints.x", "delta.feature.y", "delta.universalFormat.config.iceberg.z"):
        assert not is_unknown(key)
    assert not is_unknown("team.owner")
    assert is_unknown("delta.checkpointIntreval")
    assert closest_key("delta.checkpointIntreval") == "delta.checkpointInterval"
    assert closest_key("delta.CHECKPOINTINTERVAL") == "delta.checkpointInterval"
    assert closest_key("delta.colour") is None
    assert canonical({"DELTA.appendonly": "true", "Mine": "1"}) == {
        "delta.appendOnly": "true",
        "Mine": "1",
    }
    odd = {
        "delta.columnMapping.mode": "Id",
        "delta.checkpointPolicy": "V2",
        "DELTA.appendOnly": "FALSE",
    }
    assert list(canonical(odd).values()) == ["id", "v2", "false"]
    as_it_is = {
        "delta.columnMapping.mode": "bogus",
        "mine": "TRUE",
        "delta.logRetentionDuration": "X",
    }
    assert canonical(as_it_is) == as_it_is


def test_every_property_that_turns_a_feature_on_is_known() -> None:
    asked = {feature.property for feature in FEATURES.values() if feature.property}
    assert asked <= PROPERTIES.keys()


def test_what_means_nothing_counts_as_if_it_were_not_there() -> None:
    odd = {
        "delta.checkpointInterval": "ten",
        "delta.deletedFileRetentionDuration": "",
        "delta.logRetentionDuration": "1 month",
        "delta.setTransactionRetentionDuration": "9" * 30 + " weeks",
        "mirror.mode": "of",
    }
    assert checkpoint_interval(odd) is None
    assert checkpoint_interval({**odd, "mirror.checkpoint_interval": "3"}) == 3
    assert tombstone_ms(odd) == 7 * DAY_MS
    assert log_ms(odd) == 30 * DAY_MS
    assert txn_ms(odd) is None
    assert mirror_mode(odd) is None
    assert faults({**odd, "delta.appendOnly": "true", "mine": ""}).keys() == odd.keys()
