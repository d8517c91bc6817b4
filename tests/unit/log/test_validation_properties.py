"""Properties are checked by the commit that sets them, and by no other."""

from dataclasses import replace

import pytest

from tests.unit.actions_model import metadata, state
from tests.unit.log.verdicts import PLAIN, bad, first, good

ON = {"delta_enableInCommitTimestamps": "true"}
SINCE = {
    "delta_inCommitTimestampEnablementVersion": "3",
    "delta_inCommitTimestampEnablementTimestamp": "1700000000000",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta_checkpointInterval", "ten"),
        ("delta_checkpointInterval", "0"),
        ("delta_logRetentionDuration", "30"),
        ("delta_deletedFileRetentionDuration", "1 month"),
        ("delta_setTransactionRetentionDuration", ""),
        ("delta_appendOnly", "yes"),
        ("delta_enableDeletionVectors", "on"),
        ("delta_checkpointPolicy", "v3"),
        ("delta_dataSkippingNumIndexedCols", "many"),
        ("mirror_mode", "of"),
    ],
)
def test_a_value_that_means_nothing_is_refused_when_it_is_set(key, value):
    name = key.replace("_", ".")
    bad(metadata(**{key: value}), match=name)
    bad(*first(**{key: value}), at=None, match=name)
    good(metadata(**{key: value, "mine": "1"}), at=state(**{key: value}))


def test_unknown_keys_of_delta_are_refused_when_they_are_set():
    error = bad(metadata(delta_checkpointIntreval="5"), match="checkpointIntreval")
    assert "delta.checkpointInterval" in error.remedy
    bad(*first(delta_future="1"), at=None, match=r"delta\.future")
    good(metadata(delta_future="1", mine="2"), at=state(delta_future="1"))
    bad(metadata(delta_future="2"), at=state(delta_future="1"), match=r"delta\.future")
    good(metadata(team_owner="me"))


def test_since_when_timestamps_count_is_not_for_callers_to_say():
    at = state(**ON, **SINCE)
    good(metadata(**ON, **SINCE), at=at)
    good(metadata(**ON), at=at)
    other = {**SINCE, "delta_inCommitTimestampEnablementVersion": "2"}
    bad(metadata(**ON, **other), at=at, match="EnablementVersion")
    bad(metadata(**ON, **SINCE), at=state(**ON), match="EnablementVersion")
    bad(*first(**ON, **SINCE), at=None, match="EnablementVersion")
    half = replace(PLAIN.metadata, configuration=dict(metadata(**ON, **other).configuration))
    del half.configuration["delta.inCommitTimestampEnablementTimestamp"]
    bad(half, match="EnablementVersion")
