"""Synthetic data files: the same adds for deltasql and for its peers.

A file has a thousand rows of (id, name, amount, seen) and lies in one of 28 days. Ids are
clustered: file k holds the ids from 1000·k up to 1000·k + 999, so that `id = x` is in one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

DAYS = [f"2026-02-{day:02d}" for day in range(1, 29)]
ROWS_PER_FILE = 1_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.float64()),
        ("seen", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
    ]
)
DELTA_SCHEMA = orjson.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (
                ("id", "long"),
                ("name", "string"),
                ("amount", "double"),
                ("seen", "timestamp"),
                ("day", "date"),
            )
        ],
    }
).decode()


def wire_add(number: int) -> dict[str, Any]:
    """The add of file `number` as Delta's JSON has it, without the key `add` around it."""
    day = DAYS[number % len(DAYS)]
    first = number * ROWS_PER_FILE
    last = first + ROWS_PER_FILE - 1
    stats = {
        "numRecords": ROWS_PER_FILE,
        "minValues": {
            "id": first,
            "name": f"customer {number % 7919:05d}",
            "amount": 0.25 + number % 100,
            "seen": f"{day}T00:{number % 60:02d}:00.000Z",
        },
        "maxValues": {
            "id": last,
            "name": f"customer {number % 7919 + 80:05d}",
            "amount": 999.75 + number % 100,
            "seen": f"{day}T23:{number % 60:02d}:59.999Z",
        },
        "nullCount": {"id": 0, "name": number % 3, "amount": 0, "seen": 0},
    }
    # A number mixed up, so that paths come in no order, as those with random names do.
    scattered = number * 0x9E3779B97F4A7C15 % 2**64
    return {
        "path": f"day={day}/part-00000-{scattered:016x}-{number:012x}-c000.snappy.parquet",
        "partitionValues": {"day": day},
        "size": 30_000 + number % 5_000,
        "modificationTime": 1_770_000_000_000 + number,
        "dataChange": True,
        "stats": orjson.dumps(stats).decode(),
    }


def wire_adds(start: int, count: int) -> Iterator[dict[str, Any]]:
    """The adds of files `start` up to `start + count`."""
    return (wire_add(number) for number in range(start, start + count))


def three_rows(worker: int, turn: int) -> dict[str, list[Any]]:
    """Three small rows, other ones each time."""
    first = (worker * 1_000_000 + turn) * 3
    return {
        "id": [first, first + 1, first + 2],
        "name": [f"customer {first}", f"customer {first + 1}", f"customer {first + 2}"],
        "amount": [first * 0.25, first * 0.5, first * 0.75],
    }


SMALL_SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
