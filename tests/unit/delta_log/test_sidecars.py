"""How the files of a checkpoint are cut into stretches, and what is kept of earlier ones."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from deltasql.delta_log.checkpoint.schema import CheckpointShape
from deltasql.delta_log.checkpoint.sidecars import Sidecar, Stretch, plan_stretches

SHAPE = CheckpointShape("all", None, None)
OTHER = CheckpointShape("none", None, None)


def files(*versions: int) -> list[tuple[int, bytes]]:
    return [(version, key(version)) for version in versions]


def key(version: int) -> bytes:
    return blake2b(str(version).encode(), digest_size=32).digest()


def written(stretches: list[Stretch], shape: CheckpointShape = SHAPE) -> list[Sidecar]:
    return [
        item
        for stretch in stretches
        for item in stretch.kept
        or [
            Sidecar(
                name=f"{stretch.first}-{stretch.last}-{stretch.files}",
                size_in_bytes=1,
                modification_time=1,
                tags=stretch.tags(shape),
            )
        ]
    ]


def ranges(stretches: list[Stretch]) -> list[tuple[int, int, int, bool]]:
    return [(item.first, item.last, item.files, bool(item.kept)) for item in stretches]


def test_the_first_has_all():
    assert ranges(plan_stretches([], files(0, 1, 5), 9, SHAPE)) == [(0, 9, 3, False)]


def test_what_is_large_and_unchanged_is_kept():
    first = written(plan_stretches([], files(*range(10)), 9, SHAPE))
    found = plan_stretches(first, files(*range(12)), 11, SHAPE)
    assert ranges(found) == [(0, 9, 10, True), (10, 11, 2, False)]
    assert found[0].kept == tuple(first)
    again = plan_stretches(written(found), files(*range(14)), 13, SHAPE)
    assert ranges(again) == [(0, 9, 10, True), (10, 13, 4, False)]


def test_other_columns_and_other_files_are_not_kept():
    first = written(plan_stretches([], files(*range(10)), 9, SHAPE))
    assert ranges(plan_stretches(first, files(*range(12)), 11, OTHER)) == [(0, 11, 12, False)]
    swapped = [(0, key(77)), *files(*range(1, 12))]
    found = plan_stretches(first, swapped, 11, SHAPE)
    assert ranges(found) == [(0, 9, 10, False), (10, 11, 2, False)]
    strangers = [Sidecar(name="x", size_in_bytes=1, modification_time=1, tags={"a": "b"})]
    assert ranges(plan_stretches(strangers, files(1), 1, SHAPE)) == [(0, 1, 1, False)]


@given(st.lists(st.tuples(st.integers(1, 30), st.sets(st.integers(0, 400))), max_size=25))
def test_no_file_is_lost_and_there_are_few_sidecars(steps: list[tuple[int, set[int]]]) -> None:
    version, live = 0, {0}
    known: list[Sidecar] = []
    for new, gone in steps:
        live = (live - gone) | set(range(version + 1, version + new + 1))
        version += new
        found = plan_stretches(known, files(*sorted(live)), version, SHAPE)
        for stretch in found:
            own = [item for item in live if stretch.first <= item <= stretch.last]
            assert len(own) == stretch.files
        assert sum(item.files for item in found) == len(live)
        assert all(one.last < two.first for one, two in pairwise(found))
        known = written(found)
    assert len(known) <= 12
