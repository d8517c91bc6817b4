"""A process of its own that appends a stream, or commits, and tells its time and peak memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

import deltasql
from bench import ours
from bench.peak import peak_mb
from deltasql.spec.actions import AddFile

ROWS = 50_000
_BATCHES = 4


def _batch(seed: int, partitions: int) -> pa.RecordBatch:
    made = np.random.default_rng(seed)
    return pa.record_batch(
        {
            "id": pa.array(made.integers(0, 1 << 60, ROWS)),
            "x": pa.array(made.random(ROWS)),
            "p": pa.array(made.integers(0, max(partitions, 1), ROWS)),
            "text": pa.array([f"row {n:x} of the table" for n in made.integers(0, 1 << 60, ROWS)]),
        }
    )


def _stream(size: int, partitions: int) -> pa.RecordBatchReader:
    some = [_batch(seed, partitions) for seed in range(_BATCHES)]

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(max(1, size // some[0].nbytes)):
            columns = some[number % _BATCHES].columns
            # Buffers of their own, as a source would have them.
            yield pa.RecordBatch.from_arrays(
                [pa.concat_arrays([item, item.slice(0, 0)]) for item in columns],
                schema=some[0].schema,
            )

    return pa.RecordBatchReader.from_batches(some[0].schema, batches())


def _rows(count: int) -> pa.Table:
    """A row for each partition, in no order."""
    numbers = np.random.default_rng(1).permutation(count)
    return pa.table({"id": numbers, "x": numbers / 2, "p": numbers})


def _adds(count: int) -> Iterator[AddFile]:
    return (ours.add_file(number, partitioned=False) for number in range(count))


def main() -> None:
    """Append a stream of so many bytes to so many partitions; or with `rows`, so many rows to as
    many partitions; or with `adds`, commit so many adds.
    """
    url, location, *what = sys.argv[1:]
    with deltasql.connect(url, location=location) as lake:
        if what[0] == "adds":
            table = ours.create_files_table(lake, partitioned=False)
            work = partial(table.commit, _adds(int(what[1])))
        else:
            rows = _rows(int(what[1])) if what[0] == "rows" else _stream(*map(int, what))
            by = ["p"] if int(what[1]) else []
            table = lake.create_table("bench.stream", rows.schema, partition_by=by)
            work = partial(table.append, rows)
        started = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - started
    metrics = getattr(result, "metrics", {})
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), **metrics}))


if __name__ == "__main__":
    main()
