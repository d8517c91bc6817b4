"""Streams of odd batches: what is held of them is bounded by their rows, and every row is there."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import deltasql
from deltasql.data import even_batches
from deltasql.data.even_batches import even, plain_bytes
from deltasql.data.gathering import gathered
from deltasql.spec.schema import StructType

FLAT = pa.schema([("id", pa.int64()), ("text", pa.string())])


def _tiny(count: int, each: int = 1) -> Iterator[pa.RecordBatch]:
    for first in range(0, count * each, each):
        ids = range(first, first + each)
        yield pa.record_batch([pa.array(ids), pa.array([f"row {n}" for n in ids])], schema=FLAT)


def _reader(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


@pytest.mark.parametrize(("count", "each"), [(3_000, 1), (500, 7), (3, 5_000)])
def test_tiny_batches_are_put_together_in_their_order(count: int, each: int):
    found = list(even(_tiny(count, each), FLAT))
    assert [n for batch in found for n in batch["id"].to_pylist()] == list(range(count * each))
    # Of what Arrow keeps beside the rows there is little.
    beside = len(found) * (1024 + 2 * 512)
    assert beside < 0.2 * sum(batch.nbytes for batch in found)


def test_empty_batches_and_those_without_columns():
    empty = pa.RecordBatch.from_pylist([], FLAT)
    assert list(even(iter([empty, *_tiny(1), empty]), FLAT)) == list(_tiny(1))
    assert list(even(iter([empty, empty]), FLAT)) == []
    none = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert sum(batch.num_rows for batch in even(iter([none, none]), none.schema)) == 4


def test_a_short_stream_of_tiny_batches_is_held():
    """Few rows may be written again, in however many batches they came."""
    rows = gathered(_reader(FLAT, _tiny(10_000)), StructType(()))
    assert isinstance(rows, pa.Table)
    assert rows.num_rows == 10_000
    assert rows.column(0).num_chunks < 100


@pytest.mark.parametrize("code", ["dictionary", "runs"])
def test_a_batch_that_is_huge_once_it_is_plain_is_taken_apart(monkeypatch, code: str):
    monkeypatch.setattr(even_batches, "LARGE", 1 << 20)
    rows = 40_000
    if code == "dictionary":
        values = pa.array(["a" * 500, "b" * 500])
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * (rows // 2), pa.int8()), values)
    else:
        column = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), ["a" * 500])
    whole = pa.record_batch([column], ["text"])
    assert whole.nbytes < 1 << 17 < plain_bytes(whole)
    found = list(even(iter([whole]), whole.schema))
    assert len(found) > 15
    assert max(map(plain_bytes, found)) <= 1 << 20
    assert sum(batch.num_rows for batch in found) == rows
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([whole]))


@pytest.mark.parametrize("partitions", [[], ["p"]])
def test_every_row_of_odd_batches_arrives(tmp_path, monkeypatch, partitions: list[str]):
    """One row, many, none, and dictionaries that differ from batch to batch."""
    monkeypatch.setattr(even_batches, "LARGE", 1 << 14)
    schema = pa.schema(
        [("id", pa.int64()), ("p", pa.int64()), ("t", pa.dictionary(pa.int32(), pa.string()))]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        first = 0
        for count in (1, 1, 0, 3, 2_000, 1, 1, 5_000, 0, 1):
            ids = range(first, first + count)
            first += count
            texts = pa.array([f"text {n % 3} of {count}" for n in ids], pa.string())
            yield pa.record_batch(
                [pa.array(ids, pa.int64()), pa.array([n % 4 for n in ids], pa.int64()),
                 texts.dictionary_encode()],
                schema=schema,
            )  # fmt: skip

    expected = [
        (n, text)
        for batch in batches()
        for n, text in zip(batch["id"].to_pylist(), batch["t"].to_pylist(), strict=True)
    ]
    with deltasql.connect(f"sqlite:///{tmp_path}/l.db", location=str(tmp_path / "lake")) as lake:
        plain = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("t", pa.string())])
        table = lake.create_table("t", plain, partition_by=partitions)
        table.append(_reader(schema, batches()))
        rows = table.scan().to_arrow().sort_by("id")
        assert list(zip(rows["id"].to_pylist(), rows["t"].to_pylist(), strict=True)) == expected
