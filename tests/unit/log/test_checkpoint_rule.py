"""When a checkpoint pays: few bytes, few commits to replay, and small tables as ever."""

from __future__ import annotations

from itertools import pairwise

import pytest

from deltasql.log.checkpoint_rule import (
    FIXED,
    MOST_COMMITS,
    PROVEN,
    SMALL,
    Growth,
    grown,
    is_due,
    is_tail_due,
)
from deltasql.settings.keys import DEFAULTS

RATE = DEFAULTS.mirror_checkpoint_rate


def due_versions(
    commits: int, actions: int = 1, *, start: int = 0, interval: int = 10, removes: int = 0
) -> list[tuple[int, int]]:
    """The versions with a checkpoint, and the actions in each, of commits of so many actions."""
    growth, live, found = Growth(0, 0), start, []
    for version in range(1, commits + 1):
        live += actions - removes
        growth = grown(growth, version, actions + removes)
        if is_due(growth, version, interval=interval, rate=RATE, table_actions=live):
            found.append((version, live))
            growth = Growth(version, 0)
    return found


def test_small_tables_have_one_every_interval():
    assert [version for version, _ in due_versions(40)] == [10, 20, 30, 40]
    assert [version for version, _ in due_versions(9, interval=4)] == [4, 8]


@pytest.mark.parametrize("commits", [1_000, 10_000, 50_000])
def test_what_is_written_is_in_proportion_to_what_was_committed(commits):
    found = due_versions(commits)
    # But for the first ones of a small table, and those after very many commits.
    paid = [live for _, live in found if SMALL < live <= RATE * MOST_COMMITS - FIXED]
    assert sum(live + FIXED for live in paid) <= RATE * commits


def test_ten_thousand_commits_of_a_file():
    found = due_versions(10_000)
    written = sum(live for _, live in found)
    assert written <= 10 * found[-1][1]
    assert found[-1][0] > 9_000


@pytest.mark.parametrize("start", [0, 1_000, 1_000_000])
def test_readers_never_replay_very_many_commits(start):
    found = [0, *(version for version, _ in due_versions(5_000, start=start))]
    assert max(b - a for a, b in pairwise(found)) <= MOST_COMMITS


def test_commits_that_rewrite_much_make_one_due_every_interval():
    """To replay them is as much work as to read the table."""
    found = due_versions(100, 1_000, start=50_000, removes=1_000)
    assert found == [(version, 50_000) for version in range(10, 101, 10)]


def test_a_long_interval_is_the_least():
    assert due_versions(5_000, interval=2_500) == [(2_500, 2_500), (5_000, 5_000)]


def test_a_version_that_comes_again_is_not_counted_again():
    growth = Growth(20, 3)
    assert grown(growth, 20, 5) == growth
    assert grown(growth, 21, 5) == Growth(20, 8)


def test_a_log_of_which_nothing_was_noted():
    assert Growth.unknown(0, 10, 0) == Growth(0, 0)
    growth = grown(Growth.unknown(57, 10, 9_000), 57, 1)
    assert not is_due(growth, 57, interval=10, rate=RATE, table_actions=9_001)
    assert is_due(growth, 60, interval=10, rate=RATE, table_actions=9_004)


def tails(commits: int, *, repeated: int = 0, start: int = 0) -> list[int]:
    """The versions with a V2 checkpoint, of commits of one file."""
    growth, found = Growth(0, 0), []
    for version in range(1, commits + 1):
        growth = grown(growth, version, 1)
        if is_tail_due(
            growth,
            version,
            interval=10,
            rate=RATE,
            repeated=repeated,
            table_actions=start + version,
        ):
            found.append(version)
            growth = Growth(version, 0)
    return found


def test_sidecars_that_are_kept_make_checkpoints_frequent():
    """Readers replay as little when the table is large, as long as looking at it costs little."""
    assert tails(200) == [50, 100, 150, 200]
    assert tails(200, start=10_000) == [50, 100, 150, 200]
    (first, *_) = tails(2_000, start=100_000)
    assert (100_000 + first) // PROVEN // RATE == pytest.approx(first, abs=2)


def test_what_is_repeated_is_paid_for():
    """Tombstones are written again by each: they take half of the rate at most."""
    for repeated in (0, 100, 3_000):
        found = tails(5_000, repeated=repeated)
        assert found
        assert len(found) * (FIXED + repeated) <= RATE / 2 * 5_000


def test_the_interval_is_the_least_between_v2_checkpoints_too():
    growth = Growth(20, 10_000)
    known = {"rate": RATE, "repeated": 0, "table_actions": 10_000}
    assert not is_tail_due(growth, 29, interval=10, **known)
    assert is_tail_due(growth, 30, interval=10, **known)
