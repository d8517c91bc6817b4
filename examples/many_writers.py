"""Eight processes append to one table: no conflict, no retry, no gap."""

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import deltasql

WRITERS, APPENDS = 8, 10


def write(url: str, location: str, writer: int) -> None:
    with deltasql.connect(url, location=location, settings={"mirror.mode": "async"}) as lake:
        table = lake.table("events")
        for number in range(APPENDS):
            table.append(pa.table({"writer": [writer], "number": [number]}))


def main() -> None:
    # postgresql://… works the same.
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder) / 'lake.db'}"
        location = f"{folder}/lake"
        with deltasql.connect(url, location=location) as lake:
            table = lake.create_table(
                "events", pa.schema([("writer", pa.int64()), ("number", pa.int64())])
            )
        spawn = multiprocessing.get_context("spawn")
        started = time.monotonic()
        writers = [spawn.Process(target=write, args=(url, location, n)) for n in range(WRITERS)]
        for process in writers:
            process.start()
        for process in writers:
            process.join()
            assert process.exitcode == 0
        seconds = time.monotonic() - started
        with deltasql.connect(url, location=location) as lake:
            table = lake.table("events")
            lake.mirror.run(once=True)
            rows = table.scan().to_arrow().num_rows
            print(f"{rows} rows in {table.version} versions, {seconds:.1f} s with starting")
            assert rows == table.version == WRITERS * APPENDS
            assert table.mirror.validate().ok


if __name__ == "__main__":
    main()
