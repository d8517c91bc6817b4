"""Commit files are stored small and come back whole."""

from hashlib import sha256

import pytest

from deltasql.errors import DatabaseError
from deltasql.store.bodies import LARGE, PackedTemplate, pack, unpack
from deltasql.store.interface import BodyTemplate


@pytest.mark.parametrize(
    ("size", "encoding"), [(0, "raw"), (LARGE, "raw"), (LARGE + 1, "zstd"), (5 * LARGE, "zstd")]
)
def test_pack_and_unpack(size: int, encoding: str):
    body = b"x" * size
    packed = pack(body)
    assert packed[0] == encoding
    assert unpack(*packed) == body
    assert len(packed[1]) <= size


def test_several_frames():
    first, second = pack(b"a" * 100_000)[1], pack(b"b" * 100_000)[1]
    assert unpack("zstd", first + second) == b"a" * 100_000 + b"b" * 100_000


@pytest.mark.parametrize("size", [0, 10, LARGE, 10 * LARGE])
def test_template_is_packed_before_its_time_is_known(size: int):
    template = BodyTemplate(b"start", b"middle", b"e" * size)
    stored = PackedTemplate(template).fill(1_700_000_000_000)
    body = template.fill(1_700_000_000_000)
    assert stored.digest == sha256(body).digest()
    assert unpack(stored.encoding, stored.data) == body


def test_bytes_that_were_damaged():
    with pytest.raises(DatabaseError, match="decompressed"):
        unpack("zstd", b"nothing of the kind")
    with pytest.raises(DatabaseError, match="lz4"):
        unpack("lz4", b"")
