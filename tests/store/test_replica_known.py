"""What a client knows about a table, as servers come and go behind the same address."""

from __future__ import annotations

import time

from deltasql.store.postgres.replicas.known import Known


def test_the_newest_version_counts_with_its_time():
    known = Known()
    assert (known.version(1), known.times(1), known.age(1)) == (-1, {}, float("inf"))
    known.asked(1, 5, 500, time.monotonic())
    known.saw(1, 7, 700)
    known.saw(1, 6, 600)
    assert known.version(1) == 7
    assert known.times(1) == {5: 500, 6: 600, 7: 700}
    assert known.age(1) < 60
    assert known.version(2) == -1


def test_an_answer_that_was_under_way_takes_nothing_back():
    known, before = Known(), time.monotonic() - 1
    known.saw(1, 7, 700)
    known.asked(1, 6, 600, before)
    assert known.version(1) == 7


def test_a_primary_that_lost_versions_is_believed():
    """Asked later than they were seen: it is another server now."""
    known = Known()
    for version in (5, 6, 7):
        known.saw(1, version, version * 100)
    known.asked(1, 5, 500, time.monotonic() + 1)
    assert (known.version(1), known.times(1)) == (5, {5: 500})


def test_a_version_at_another_time_replaces_what_followed():
    known = Known()
    for version in (5, 6, 7):
        known.saw(1, version, version * 100)
    known.saw(1, 6, 666)
    assert (known.version(1), known.times(1)) == (6, {5: 500, 6: 666})


def test_few_versions_are_remembered_and_one_may_have_no_time():
    known = Known()
    for version in range(100):
        known.saw(1, version, version)
    assert list(known.times(1)) == list(range(84, 100))
    known.saw(1, 100, None)
    assert known.version(1) == 100
    assert 100 not in known.times(1)
