"""Sums over files do not know their order, and know everything else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltasql.log.file_sums import FileSum, FileSums

FILES = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=2), st.integers(0, 9)))


def summed(files: list[tuple[bytes, bytes, int]]) -> FileSums:
    found = FileSum()
    found.add_many(files)
    return found.value()


@given(FILES, st.randoms())
def test_any_order_gives_the_same(files, random):
    mixed = list(files)
    random.shuffle(mixed)
    one_by_one = FileSum()
    for file in mixed:
        one_by_one.add(*file)
    assert one_by_one.value() == summed(files)


@given(FILES, FILES)
def test_what_comes_and_goes_leaves_no_trace(files, others):
    found = FileSum(summed(files))
    for file in others:
        found.add(*file)
    for file in reversed(others):
        found.drop(*file)
    assert found.value() == summed(files)


def test_other_files_are_told_apart():
    a, b = (b"a" * 16, b"", 3), (b"b" * 16, b"v" * 16, 5)
    # The same number and bytes: paths, vectors and sizes belong together.
    for other in ([(b"c" * 16, b"", 3), b], [(a[0], b[1], 3), (b[0], a[1], 5)]):
        assert summed(other).size_bytes == summed([a, b]).size_bytes
        assert summed(other) != summed([a, b])
    swapped = summed([(a[0], a[1], 5), (b[0], b[1], 3)])
    assert swapped.digest != summed([a, b]).digest
