"""Sums over files do not know their order, and know everything else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltasql.log.file_sums import FileHashes, FileSum, FileSums

FILES = st.lists(
    st.builds(FileHashes, st.binary(max_size=3), st.binary(max_size=2), st.integers(0, 9))
)


def summed(files: list[FileHashes]) -> FileSums:
    found = FileSum()
    found.add_many(files)
    return found.value()


@given(FILES, st.randoms())
def test_any_order_gives_the_same(files, random):
    mixed = list(files)
    random.shuffle(mixed)
    one_by_one = FileSum()
    for file in mixed:
        one_by_one.add(file)
    assert one_by_one.value() == summed(files)


@given(FILES, FILES)
def test_what_comes_and_goes_leaves_no_trace(files, others):
    found = FileSum(summed(files))
    for file in others:
        found.add(file)
    for file in reversed(others):
        found.drop(file)
    assert found.value() == summed(files)


def test_other_files_are_told_apart():
    a, b = FileHashes(b"a" * 16, b"s" * 16, 3), FileHashes(b"b" * 16, b"t" * 16, 5)
    known = summed([a, b])
    other = summed([a, b._replace(content=b"c" * 16)])
    assert (other.files, other.size_bytes) == (known.files, known.size_bytes)
    assert not other.has_files_of(known)
    assert not summed([a, b._replace(stats=b"u" * 16)]).has_files_of(known)
    bare = summed([a._replace(stats=b""), b._replace(stats=b"")])
    assert bare.has_files_of(known)
    assert not bare.same_files(known)


def test_what_is_no_file_counts():
    found = FileSum()
    found.add_other(b"o" * 16)
    assert found.value() != FileSums()
    assert found.value().has_files_of(FileSums())
    assert FileSum(found.value()).value() == found.value()
