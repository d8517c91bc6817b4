"""Streams that are longer than what is held: written in bounded memory, and whole."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import deltasql
from deltasql.data import gathering
from deltasql.data.writing import partition_files, writer
from deltasql.data.writing.growing_buffer import GrowingBuffer
from tests.lake.test_stale_state import with_column

KIB = 1 << 10
ROWS = 2_000


@pytest.fixture
def store_url(tmp_path) -> str:
    """One database is enough: this is about files."""
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts in megabytes counts in kilobytes here."""
    monkeypatch.setattr(gathering, "SHORT", 64 * KIB)
    monkeypatch.setattr(writer, "_GATHERED", 128 * KIB)
    monkeypatch.setattr(writer, "_SPLIT", 128 * KIB)
    monkeypatch.setattr(writer, "_ROW_GROUP", 256 * KIB)
    monkeypatch.setattr(writer, "_PIECE", 512 * KIB)
    monkeypatch.setattr(writer, "_UPLOAD_BYTES", 256 * KIB)
    monkeypatch.setattr(partition_files, "WAITING", 384 * KIB)
    monkeypatch.setattr(partition_files, "OPEN", 512 * KIB)
    monkeypatch.setattr(partition_files, "OPEN_FILES", 8)


def batch(number: int, partitions: int) -> pa.RecordBatch:
    first = number * ROWS
    ids = range(first, first + ROWS)
    return pa.record_batch(
        {
            "id": pa.array(ids, pa.int64()),
            "p": pa.array([f"p{key * 7919 % partitions}" for key in ids]),
            "text": pa.array([f"the text of row {key * 2654435761 % 2**32}" for key in ids]),
        }
    )


class Source:
    """Batches made one after the other, and the most that Arrow held between two of them."""

    def __init__(self, count: int, partitions: int = 1) -> None:
        self.count = count
        self.partitions = partitions
        self.most = 0
        self.before = pa.total_allocated_bytes()
        self.schema = batch(0, 1).schema

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self):
        for number in range(self.count):
            yield batch(number, self.partitions)
            self.most = max(self.most, pa.total_allocated_bytes() - self.before)


@pytest.mark.parametrize("partitions", [1, 5, 40])
def test_every_row_is_written_in_bounded_memory(lake: deltasql.Lake, partitions: int):
    source = Source(60, partitions)
    by = ["p"] if partitions > 1 else []
    table = lake.create_table("s.long", source.schema, partition_by=by)
    result = table.append(source.reader())
    assert result.metrics["numOutputRows"] == 60 * ROWS
    rows = table.scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == list(range(60 * ROWS))
    expected = Counter(f"p{key * 7919 % partitions}" for key in range(60 * ROWS))
    assert Counter(rows["p"].to_pylist()) == expected
    if by:
        # Of one partition's file, which is in memory, the size is the bound: it does not reach it.
        assert source.most < 0.6 * 60 * batch(0, 1).nbytes


def _written(source: Source, lake: deltasql.Lake, how: str) -> deltasql.Table:
    if how == "create":
        return lake.create_table("s.long", data=source.reader())
    if how == "replace an absent one":
        return lake.create_or_replace_table("s.long", data=source.reader())
    if how != "write to an absent one":
        lake.create_table("s.long", source.schema)
    if how == "replace":
        return lake.create_or_replace_table("s.long", data=source.reader())
    mode = "overwrite" if how == "write over" else "append"
    assert lake.write(source.reader(), "s.long", mode).metrics["numOutputRows"] == 200 * ROWS
    return lake.table("s.long")


@pytest.mark.parametrize(
    "how",
    ["create", "replace", "replace an absent one", "write to an absent one", "write", "write over"],
)
def test_new_tables_and_writes_by_name_stream_as_well(lake: deltasql.Lake, how: str):
    source = Source(200)
    table = _written(source, lake, how)
    # A file is in memory until it is whole; all rows would be twice as much.
    assert source.most < 0.6 * 200 * batch(0, 1).nbytes
    assert table.count() == 200 * ROWS
    assert table.min_max("id") == (0, 200 * ROWS - 1)


def test_a_new_table_whose_rows_fail_leaves_no_files(lake: deltasql.Lake, tmp_path):
    def broken():
        yield from (batch(number, 1) for number in range(20))
        raise OSError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(batch(0, 1).schema, broken())
    with pytest.raises(Exception, match="the source is gone"):
        lake.create_table("s.failed", data=reader)
    assert list(tmp_path.rglob("*.parquet")) == []
    assert lake.create_table("s.failed", data=batch(0, 1)).count() == ROWS


def test_rows_of_a_partition_keep_their_order(lake: deltasql.Lake):
    source = Source(40, 3)
    table = lake.create_table("s.ordered", source.schema, partition_by=["p"])
    table.append(source.reader())
    files = table.snapshot().adds()
    assert sum(1 for _ in files) > 3
    for number in range(3):
        ids = table.scan(where=f"p = 'p{number}'").to_arrow()["id"].to_pylist()
        assert sorted(ids) == [key for key in range(40 * ROWS) if key * 7919 % 3 == number]


def test_a_table_changed_before_a_long_stream_is_no_obstacle(lake: deltasql.Lake, store_url: str):
    source = Source(30)
    table = lake.create_table("s.changed", source.schema)
    table.version  # noqa: B018 - what is known of it is remembered
    with deltasql.connect(store_url, location=lake.location) as other:
        there = other.table("s.changed")
        there.commit([with_column(there, "more")])
    table.append(source.reader())
    assert table.count() == 30 * ROWS


def test_a_long_stream_that_breaks_off_leaves_nothing(lake: deltasql.Lake, tmp_path):
    source = Source(30, 4)
    table = lake.create_table("s.broken", source.schema, partition_by=["p"])

    def batches():
        yield from source.reader()
        raise deltasql.ValidationError("the source is gone")

    with pytest.raises(deltasql.ValidationError, match="the source is gone"):
        table.append(pa.RecordBatchReader.from_batches(source.schema, batches()))
    assert table.version == 0
    assert [path for path in tmp_path.rglob("*.parquet") if "_delta_log" not in str(path)] == []


def test_overwriting_some_rows_streams_those_that_stay(lake: deltasql.Lake):
    source = Source(60, 4)
    table = lake.create_table("s.some", source.schema, partition_by=["p"])
    table.append(source.reader())
    before = pa.total_allocated_bytes()
    new = batch(0, 1).slice(0, 1).set_column(0, "id", pa.array([-1], pa.int64()))
    table.overwrite(new.set_column(1, "p", pa.array(["p1"])), where="p = 'p1' AND id < 1000")
    gone = [key for key in range(1000) if key * 7919 % 4 == 1]
    assert table.count() == 60 * ROWS - len(gone) + 1
    assert pa.total_allocated_bytes() - before < 4_000_000


def test_a_stream_that_the_table_numbers_is_held_and_written_again(lake, store_url: str):
    source = Source(6)
    number = pa.field(
        "n", pa.int64(), metadata={"delta.identity.start": "1", "delta.identity.step": "1"}
    )
    table = lake.create_table("s.numbered", source.schema.append(number))
    other = deltasql.connect(store_url, location=lake.location)

    def batches():
        yield from source.reader()
        # Behind the back of the stream, whose numbers are handed out by now.
        other.table("s.numbered").append(pa.Table.from_batches([batch(90, 1)]))

    table.append(pa.RecordBatchReader.from_batches(source.schema, batches()))
    found = table.scan().to_arrow()["n"].to_pylist()
    assert sorted(found) == list(range(1, 7 * ROWS + 1))
    other.close()


def test_files_of_partitions_end_at_the_target_size(lake: deltasql.Lake):
    source = Source(20, 2)
    table = lake.create_table("s.sized", source.schema, partition_by=["p"])
    options = deltasql.WriterProperties(row_group_size=500)
    table.append(source.reader().read_all(), writer=options, target_file_size=20 * KIB)
    sizes = [item.size for item in table.snapshot().adds()]
    assert table.count() == 20 * ROWS
    assert max(sizes) < 60 * KIB


def test_an_open_file_reserves_little_more_than_it_holds():
    """Hundreds are open at once, and a limit on a process' data counts what is reserved."""
    file, piece = GrowingBuffer(), bytes(range(250)) * 400
    for number in range(1, 60):
        file.write(piece)
        assert len(file._memory) <= 1.5 * number * len(piece) + 2 * 1024 * KIB
    assert file.getvalue().to_pybytes() == piece * 59


def test_the_file_of_a_partition_gets_a_buffer_of_its_size(lake: deltasql.Lake, monkeypatch):
    """Arrow's own doubles, so that a hundred open files held up to twice what they had."""
    made = []

    class Noted(GrowingBuffer):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(writer, "GrowingBuffer", Noted)
    for place, name in (
        (writer, "_ROW_GROUP"), (writer, "_PIECE"), (partition_files, "WAITING"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, 4096 * KIB)
    rows = pa.table({"id": range(100_000), "p": [number % 2 for number in range(100_000)]})
    lake.create_table("s.parts", rows.schema, partition_by=["p"]).append(rows)
    assert len(made) == 2
