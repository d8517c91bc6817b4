"""A job that is run again after a failure, and loads each batch once."""

import tempfile
from pathlib import Path

import pyarrow as pa

import deltasql

JOB = "nightly-load"


def run(
    table: deltasql.Table, batches: dict[int, list[int]], *, fail_at: int | None = None
) -> None:
    """Load every batch; those that an earlier run has loaded are skipped by the commit itself."""
    for number, ids in batches.items():
        if number == fail_at:
            raise RuntimeError(f"batch {number} could not be fetched")
        table.append(pa.table({"id": ids}), app_id=JOB, app_version=number)


def main() -> None:
    batches = {1: [1, 2], 2: [3, 4], 3: [5, 6]}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'lake.db'}"
        with deltasql.connect(url, location=f"{folder}/lake") as lake:
            table = lake.create_table("events", pa.schema([("id", pa.int64())]))
            try:
                run(table, batches, fail_at=3)
            except RuntimeError as error:
                print(f"first run: {error}; done up to {table.snapshot().txns[JOB]}")
            run(table, batches)
            ids = sorted(table.scan().to_arrow().column("id").to_pylist())
            print(f"second run: {ids}, version {table.version}")
            assert ids == [1, 2, 3, 4, 5, 6]
            assert table.version == 3


if __name__ == "__main__":
    main()
