"""A process of its own that appends a stream, or prunes, and tells its time and peak memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import deltasql
from bench.peak import peak_mb

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


def main() -> None:
    url, location, size, partitions = sys.argv[1:]
    reader = _stream(int(size), int(partitions))
    with deltasql.connect(url, location=location) as lake:
        by = ["p"] if int(partitions) else []
        table = lake.create_table("bench.stream", reader.schema, partition_by=by)
        started = time.perf_counter()
        result = table.append(reader)
        seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), **result.metrics}))


if __name__ == "__main__":
    main()
