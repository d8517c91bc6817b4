"""The writer and the reader on a disk, where others read it too."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from deltasql.data.arrow_schema import from_arrow
from deltasql.data.layout import layout_of
from deltasql.data.reading.reader import read_files
from deltasql.data.writing.writer import write_files
from deltasql.errors import StoreError
from deltasql.objectstore import ObjectStore, open_store
from deltasql.objectstore.sources import Sources
from deltasql.places import place_of
from deltasql.spec import deletion_vectors as dv
from deltasql.spec.actions import Protocol
from deltasql.spec.codec import encode_commit
from deltasql.spec.paths import object_key
from deltasql.spec.properties import COLUMN_MAPPING_MODE
from tests.unit.data.files_model import (
    EVERYTHING,
    mapped,
    metadata_of,
    new_store,
    read_back,
    write_out,
)


class _Failing:
    """A store whose third put fails."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.left = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def put(self, path: str, data: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoreError("full")
        self.store.put(path, data)


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_failed_write_says_which_files_it_leaves(where: str, tmp_path: Path) -> None:
    store = _Failing(new_store(tmp_path if where == "disk" else None))
    table = pa.table({"p": ["a b", "c%d", *"efghijkl"], "v": range(10)})
    metadata = metadata_of(from_arrow(table.schema), "p")
    left: list[str] = []
    with pytest.raises(StoreError, match="full"):
        write_out(store, metadata, table, abandon=left.extend)  # type: ignore[arg-type]
    there = {info.path for info in store.store.list()}
    # The writer deletes nothing itself: whether a file is in a version is not its to say.
    assert len(there) == 2
    assert there <= {object_key(path) for path in left}


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("partition", [(), ("s",), ("day", "m"), ("at", "l", "t")])
def test_deltalake_reads_what_is_written(
    mode: str, partition: tuple[str, ...], tmp_path: Path
) -> None:
    schema: Any = from_arrow(EVERYTHING)
    if mode != "none":
        schema = mapped(schema, count(1))
    at = dt.datetime.fromisoformat("2026-01-02T03:04:05.678901")
    row = {
        "s": "a b/c=%é",
        "l": 2**60,
        "b": -1,
        "d": 1.5,
        "t": True,
        "x": b"x",
        "day": at.date(),
        "at": at.replace(tzinfo=dt.UTC),
        "wall": at,
        "m": Decimal("12.30"),
        "n": {"a": 1, "l": [{"x": "y"}, None]},
        "map": [("k", {"v": 7})],
    }
    table = pa.Table.from_pylist([row, {"l": 5}, row], EVERYTHING)
    store = new_store(tmp_path)
    properties = (
        {}
        if mode == "none"
        else {COLUMN_MAPPING_MODE: mode, "delta.columnMapping.maxColumnId": "20"}
    )
    metadata = metadata_of(schema, *partition, **properties)
    files = write_out(store, metadata, table)
    features = ("timestampNtz",) if mode == "none" else ("columnMapping", "timestampNtz")
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=features,
        writer_features=features,
    )
    store.put("_delta_log/" + "0" * 20 + ".json", encode_commit([protocol, metadata, *files]))
    query = QueryBuilder().register("t", DeltaTable(tmp_path))
    found = pa.table(query.execute("select * from t")).select(EVERYTHING.names).cast(EVERYTHING)

    def rows(of: pa.Table) -> list[str]:
        return sorted(map(repr, of.to_pylist()))

    assert rows(found) == rows(table) == rows(read_back(store, metadata, files))
    kept = pa.table(query.execute("select l from t where l > 10 and m > 12"))
    assert kept.num_rows == 2


def test_absolute_paths(tmp_path: Path) -> None:
    table = pa.table({"v": [1, 2, 3]})
    elsewhere, metadata = new_store(tmp_path / "else where"), metadata_of(from_arrow(table.schema))
    (file,) = write_out(elsewhere, metadata, table)
    content, offsets = dv.encode_file([dv.encode([1])])
    elsewhere.put("d.bin", content)
    vector = replace(
        dv.inline([1]),
        storage_type="p",
        path_or_inline_dv=f"{elsewhere.location}/d.bin",
        offset=offsets[0],
    )
    location = elsewhere.location
    for uri in (f"{elsewhere.location}/{file.path}", f"file:{tmp_path}/else%20where/{file.path}"):
        absolute = replace(file, path=uri, deletion_vector=vector)
        table_at = open_store(str(tmp_path / "t"), {}, Sources(lambda: [place_of(location)]))
        assert read_back(table_at, metadata, [absolute]).column("v").to_pylist() == [1, 3]


def test_many_files_keep_their_order(tmp_path: Path) -> None:
    table = pa.table({"v": range(5)})
    store, metadata = new_store(tmp_path), metadata_of(from_arrow(table.schema))
    ids = count()
    files = [
        file
        for _ in range(20)
        for file in write_files(
            store,
            layout=layout_of(metadata),
            data=table,
            new_id=lambda: str(next(ids)),
            now_ms=lambda: 0,
        )
    ]
    large = [replace(file, size=1 << 30) if n % 3 else file for n, file in enumerate(files)]
    for given_files in (files, large):
        assert read_back(store, metadata, given_files).column("v").to_pylist() == [*range(5)] * 20
    first = next(read_files(store, files, schema=from_arrow(table.schema)))
    assert first.num_rows == 5
