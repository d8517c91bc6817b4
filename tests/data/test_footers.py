"""Damaged footers of data files: typed errors, never the end of the process or of its memory."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.data.reading import footer
from deltasql.data.reading.footer import open_parquet
from tests.sizes import FULL

FLIPS = 2_000 if FULL else 150
SCAN = """
import random, sys
import deltasql
from pathlib import Path
lake = deltasql.connect(sys.argv[1])
table, chance = lake.table("t"), random.Random(int(sys.argv[3]))
(file,) = Path(table.location.removeprefix("file://")).glob("*.parquet")
whole = file.read_bytes()
start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
told = set()
for _ in range(int(sys.argv[2])):
    broken = bytearray(whole)
    for _ in range(chance.choice([1, 1, 2, 4])):
        broken[chance.randrange(start, len(broken))] ^= 1 << chance.randrange(8)
    file.write_bytes(bytes(broken))
    try:
        table.scan(where="id = 2500", columns=["id", "v"]).to_arrow()
        told.add("read")
    except deltasql.DeltaSqlError as error:
        told.add(type(error).__name__)
print(sorted(told))
"""


def test_flipped_footers_with_row_groups_skipped(tmp_path: Path) -> None:
    """In a process of its own: Arrow could end it, as was seen once and not reproduced since."""
    import deltasql

    url = f"sqlite:///{tmp_path / 'lake.db'}"
    with deltasql.connect(url, location=str(tmp_path / "lake")) as lake:
        rows = pa.table({"id": range(3000), "v": [str(n) for n in range(3000)]})
        table = lake.create_table("t", rows.schema)
        table.append(rows)
        (file,) = Path(table.location.removeprefix("file://")).glob("*.parquet")
        pq.write_table(rows, file, row_group_size=500)
        (add,) = table.snapshot().adds()
        size = file.stat().st_size
        with lake.store.locked([]) as log:
            log.execute(f"UPDATE dl_active_files SET size_bytes = {size}")
        assert add.size != size
    done = subprocess.run(
        [sys.executable, "-c", SCAN, url, str(FLIPS), "22"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "LogFormatError" in done.stdout


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
