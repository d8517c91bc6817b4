from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.spec import deletion_vectors as dv
from deltasql.spec.actions import DeletionVector

rows_anywhere = st.sets(
    st.one_of(st.integers(0, 300_000), st.integers(0, 2**34), st.integers(2**32 - 5, 2**32 + 5))
)


def _vector(kind: str, text: str, *, size: int = 0, offset: int | None = None) -> DeletionVector:
    return DeletionVector(
        storage_type=kind,
        path_or_inline_dv=text,
        size_in_bytes=size,
        cardinality=0,
        offset=offset,
    )


def test_a_vector_that_another_implementation_wrote() -> None:
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    place = dv.locate(_vector("i", text, size=44))
    assert isinstance(place, dv.Inline)
    assert list(dv.decode(place.bitmap, cardinality=6)) == [3, 4, 7, 11, 18, 29]


@given(rows_anywhere)
def test_rows_come_back(rows: set[int]) -> None:
    assert list(dv.decode(dv.encode(rows), cardinality=len(rows))) == sorted(rows)


@pytest.mark.parametrize("rows", [range(4096), range(4097), range(0, 200_000, 3), range(70_000)])
def test_arrays_and_bitmaps(rows: range) -> None:
    assert list(dv.decode(dv.encode(rows), cardinality=len(rows))) == list(rows)


@given(rows_anywhere)
def test_inline_vectors_come_back(rows: set[int]) -> None:
    vector = dv.inline(rows)
    place = dv.locate(vector)
    assert isinstance(place, dv.Inline)
    assert list(dv.decode(place.bitmap, cardinality=vector.cardinality)) == sorted(rows)


@given(st.lists(rows_anywhere, max_size=3))
def test_several_vectors_share_a_file(sets: list[set[int]]) -> None:
    bitmaps = [dv.encode(rows) for rows in sets]
    content, offsets = dv.encode_file(bitmaps)
    for rows, bitmap, offset in zip(sets, bitmaps, offsets, strict=True):
        uuid = bytes(range(16))
        vector = dv.in_file(uuid, bitmap=bitmap, offset=offset, cardinality=len(rows), prefix="ab")
        place = dv.locate(vector)
        assert isinstance(place, dv.InFile)
        assert place.path == "ab/deletion_vector_00010203-0405-0607-0809-0a0b0c0d0e0f.bin"
        frame = content[place.offset : place.offset + place.length]
        found = dv.unframe(frame, version=content[0], size=vector.size_in_bytes)
        assert list(dv.decode(found, cardinality=len(rows))) == sorted(rows)


def _with_runs(runs: list[tuple[int, int]], containers: int = 1) -> bytes:
    size = sum(more + 1 for _, more in runs)
    body = struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *run) for run in runs)
    head = struct.pack("<I", 12347 | (containers - 1) << 16)
    flags = bytes([2**containers - 1])
    keys = b"".join(struct.pack("<HH", key, size - 1) for key in range(containers))
    offsets = bytes(4 * containers) if containers >= 4 else b""
    return head + flags + keys + offsets + body * containers


@pytest.mark.parametrize("containers", [1, 3, 4, 5])
def test_runs(containers: int) -> None:
    bitmap = _with_runs([(2, 3), (10, 0), (65_530, 5)], containers)
    one = [2, 3, 4, 5, 10, *range(65_530, 65_536)]
    expected = [key << 16 | low for key in range(containers) for low in one]
    portable = struct.pack("<IQI", dv.PORTABLE_MAGIC, 1, 0) + bitmap
    assert list(dv.decode(portable, cardinality=len(expected))) == expected


def test_the_native_form() -> None:
    bitmap = _with_runs([(0, 1)])
    native = struct.pack("<II", dv.NATIVE_MAGIC, 2) + 2 * (struct.pack("<I", len(bitmap)) + bitmap)
    assert list(dv.decode(native, cardinality=4)) == [0, 1, 2**32, 2**32 + 1]


@given(st.binary(max_size=60), st.integers(0, 30))
def test_damage_is_told_or_harmless(noise: bytes, cut: int) -> None:
    whole = dv.encode([1, 5, 70_000, 2**33])
    for broken in (noise, whole[:cut], whole[:cut] + noise, whole + noise):
        try:
            rows = dv.decode(broken, cardinality=4)
        except LogFormatError:
            continue
        assert len(rows) == 4


def test_a_wrong_cardinality() -> None:
    with pytest.raises(LogFormatError, match="holds 2 rows"):
        dv.decode(dv.encode([1, 2]), cardinality=3)
    with pytest.raises(LogFormatError, match="more than 1 rows"):
        dv.decode(dv.encode([1, 2]), cardinality=1)


def test_a_bomb_takes_no_memory() -> None:
    """Runs of all rows: 32 million in two hundred bytes of each of 64 bitmaps."""
    bitmap = _with_runs([(0, 65_535)], 8)
    many = b"".join(struct.pack("<I", high) + bitmap for high in range(64))
    bomb = struct.pack("<IQ", dv.PORTABLE_MAGIC, 64) + many
    tracemalloc.start()
    try:
        with pytest.raises(LogFormatError, match="more than 3 rows"):
            dv.decode(bomb, cardinality=3)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_wrong_frame() -> None:
    bitmap = dv.encode([1, 2])
    content, _ = dv.encode_file([bitmap])
    frame = content[1:]
    with pytest.raises(LogFormatError, match="checksum"):
        dv.unframe(frame[:-1] + b"\xff", version=1, size=len(bitmap))
    with pytest.raises(LogFormatError, match="size"):
        dv.unframe(frame[:-1], version=1, size=len(bitmap))
    with pytest.raises(LogFormatError, match="size"):
        dv.unframe(frame, version=1, size=len(bitmap) - 1)
    with pytest.raises(UnsupportedFeatureError, match="version 2"):
        dv.unframe(frame, version=2, size=len(bitmap))


def test_places_that_make_no_sense() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'x'"):
        dv.locate(_vector("x", ""))
    with pytest.raises(LogFormatError, match="too short"):
        dv.locate(_vector("u", "abc"))
    with pytest.raises(LogFormatError, match="not absolute"):
        dv.locate(_vector("p", "a/b"))
    with pytest.raises(LogFormatError, match="z85"):
        dv.locate(_vector("i", "abc~e", size=4))
    with pytest.raises(LogFormatError, match="size"):
        dv.locate(_vector("i", "HelloWorld", size=44))
    assert dv.locate(_vector("p", "/a/b", size=5, offset=7)) == dv.InFile("/a/b", 7, 13)
    assert dv.locate(_vector("p", "s3://b/k.bin", size=5, offset=7)) == dv.InFile(
        "s3://b/k.bin", 7, 13
    )


def test_z85() -> None:
    data = bytes.fromhex("864FD26FB559F75B")
    assert dv.z85_encode(data) == "HelloWorld"
    assert dv.z85_decode("HelloWorld") == data
    with pytest.raises(LogFormatError):
        dv.z85_decode("#####")
