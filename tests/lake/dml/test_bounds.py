"""What operations may use: memory up to a limit, and the columns that they need."""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Event, Thread
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql

MIB = 1 << 20
VECTORS = {"delta.enableDeletionVectors": "true"}


class Spilled:
    """The most bytes that lay in the engine's folders while a block ran."""

    def __init__(self, root: Path) -> None:
        self._root, self._over = root, Event()
        self.most = 0
        self._thread = Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.002):
            sizes = []
            for path in self._root.glob("deltasql-*/*"):
                try:
                    sizes.append(path.stat().st_size)
                except FileNotFoundError:
                    continue
            self.most = max(self.most, sum(sizes))

    def __enter__(self) -> Spilled:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def rows(keys: np.ndarray, word: str) -> pa.Table:
    texts = [f"{word}{key:090d}" for key in keys]
    return pa.table({"id": pa.array(keys), "text": texts})


def test_a_merge_beyond_its_memory_spills(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    count = 400_000
    keys = np.random.default_rng(7).permutation(count)
    url, settings = f"sqlite:///{tmp_path / 'lake.db'}", {"duckdb.memory_limit": "64MB"}
    with deltasql.connect(url, location=(tmp_path / "lake").as_uri(), settings=settings) as lake:
        table = lake.create_table("t", data=rows(keys[: count // 2], "old"))
        source = rows(np.sort(keys), "new")
        with Spilled(tmp_path) as spilled:
            merge = table.merge(source, "target.id = source.id")
            done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        assert spilled.most > MIB
        assert done.metrics["numTargetRowsUpdated"] == count // 2
        assert done.metrics["numTargetRowsInserted"] == count // 2
        assert table.scan().to_arrow().sort_by("id") == source
    assert list(tmp_path.glob("deltasql-*")) == []


@pytest.mark.parametrize("mode", ["none", "name"])
def test_columns_that_no_condition_names_are_not_read(tmp_path, mode):
    properties = {**VECTORS, "delta.columnMapping.mode": mode}
    data = pa.table({"id": range(1000), "p": [n % 2 for n in range(1000)],
                     "text": [f"text {n * 2654435761 % 2**32}" for n in range(1000)]})  # fmt: skip
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    with deltasql.connect(url, location=(tmp_path / "lake").as_uri()) as lake:
        table = lake.create_table("t", data=data, properties=properties)
        (add,) = table.snapshot().adds()
        file = Path(unquote(urlsplit(table.location).path)) / add.path
        chunk = pq.read_metadata(file).row_group(0).column(2)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        damaged = bytearray(file.read_bytes())
        damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
        file.write_bytes(damaged)
        with pytest.raises(deltasql.DeltaSqlError):
            table.scan().to_arrow()
        assert table.delete("id % 10 = 3 AND p = 1").metrics["numDeletedRows"] == 100
        merge = table.merge(pa.table({"k": [4, 5]}), "target.id = source.k")
        assert merge.when_matched_delete("target.p = 0").execute() == 2
        assert table.count() == table.count("id >= 0") == 899
        found = table.scan("p = 0", columns=["id"]).to_arrow()
        assert found.num_rows == 499
