"""Footers of data files that lie: typed errors, before memory is taken for them."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.data.reading import footer
from deltasql.data.reading.footer import open_parquet


def test_lengths_that_lie(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), file)
    whole = file.read_bytes()
    for broken in (
        b"",
        whole[:9],
        whole[:-1],
        whole[:-8] + (2**31).to_bytes(4, "little") + b"PAR1",
        whole[:-8] + (len(whole)).to_bytes(4, "little") + b"PAR1",
    ):
        with pytest.raises(pa.ArrowInvalid):
            open_parquet(pa.BufferReader(broken))
    assert open_parquet(pa.BufferReader(whole)).read().num_rows == 1


def test_columns_and_bytes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({f"c{n}": [n] for n in range(40)}), sink)
    content = sink.getvalue()
    assert open_parquet(pa.BufferReader(content)).read().num_columns == 40
    monkeypatch.setattr(footer, "MOST_COLUMNS", 30)
    with pytest.raises(pa.ArrowInvalid, match="41 columns; the limit is 30"):
        open_parquet(pa.BufferReader(content))
    monkeypatch.setattr(footer, "MOST_BYTES", 100)
    with pytest.raises(pa.ArrowInvalid, match="the limit is 100"):
        open_parquet(pa.BufferReader(content))


def test_long_footers_are_read_in_two_parts() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({f"c{n}": range(20) for n in range(300)}), sink, row_group_size=2)
    content = sink.getvalue()
    assert open_parquet(pa.BufferReader(content)).read().num_rows == 20
    broken, chance = bytearray(content.to_pybytes()), random.Random(1)
    broken[-200 - chance.randrange(60_000)] ^= 255
    with suppress(pa.ArrowException):
        open_parquet(pa.BufferReader(bytes(broken)))
