"""Which conditions of Spark's mean the same to the database; no session is needed to tell."""

from __future__ import annotations

import pytest

from deltasql.spark.native.skipping import decidable
from tests.unit.actions_model import state
from tests.unit.log.schemas import schema_of

STATE = state(
    schema_of(i="long", m="decimal(20,2)", d="double", f="float", at="timestamp", s="string")
)


@pytest.mark.parametrize(
    ("text", "is_decided"),
    [
        ("(i = 5L)", True),
        ("(m <> 1.10BD)", True),
        ("(d = 9.007199254740993E15D)", True),
        ("(s = '5.0D')", True),
        # As doubles 9007199254740992 and 9007199254740993 are one number.
        ("(i <> 9.007199254740993E15D)", False),
        ("(m = 5.0D)", False),
        ("(f = 0.1BD)", False),
        ("(s = '\\\\x')", False),
    ],
)
def test_only_what_means_the_same_is_decided(text, is_decided):
    predicate, is_whole = decidable([text], STATE, time_zone="UTC")
    assert (predicate is not None, is_whole) == (is_decided, is_decided)


def test_times_are_in_the_sessions_zone():
    texts = ["(at = '2026-01-01')", "(i = 1)"]
    assert decidable(texts, STATE, time_zone="UTC")[1]
    predicate, is_whole = decidable(texts, STATE, time_zone="Europe/Berlin")
    assert predicate is not None
    assert not is_whole
