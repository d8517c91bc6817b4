"""Lag by two clocks, and waits that don't depend on either."""

from __future__ import annotations

from dataclasses import replace

from deltasql.mirror.publishing.lag import LagWatch, is_due
from deltasql.store.mirroring.interface import Backlog

ITEM = Backlog(
    table_id=1, name="a", location="", is_paused=False, head=9, versions=2, first_version=8,
    oldest=100_000, retry_count=0, last_attempt_at=None, is_failed=False, error_message=None,
    checkpoints=0, first_checkpoint=None, checkpoint_retry_count=0, checkpoint_attempt_at=None,
)  # fmt: skip


def test_the_database_says_how_old_a_version_is():
    assert LagWatch(lambda: 0.0).seconds(ITEM, 160_000) == 60.0


def test_versions_of_the_future_are_late_by_our_own_clock():
    now = [10.0]
    watch = LagWatch(lambda: now[0])
    assert watch.seconds(ITEM, 1_000) == 0.0
    now[0] = 75.0
    assert watch.seconds(ITEM, 1_000) == 65.0
    assert watch.seconds(replace(ITEM, first_version=9, versions=1), 1_000) == 0.0
    now[0] = 80.0
    assert watch.seconds(replace(ITEM, first_version=9, versions=1), 1_000) == 5.0


def test_what_was_mirrored_is_forgotten():
    now = [0.0]
    watch = LagWatch(lambda: now[0])
    watch.seconds(ITEM, 1_000)
    now[0] = 50.0
    assert watch.seconds(replace(ITEM, versions=0, first_version=None, oldest=None), 1_000) == 0.0
    assert watch.seconds(ITEM, 1_000) == 0.0


def test_waits():
    assert is_due(None, 1_000, 0)
    assert not is_due(500, 1_000, 1_499)
    assert is_due(500, 1_000, 1_500)
    assert is_due(5_000, 1_000, 1_500), "an attempt that is yet to come proves nothing"
