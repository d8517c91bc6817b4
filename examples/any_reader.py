"""The same table, read by delta-rs, Polars and DuckDB from the mirror: no plugin.

Needs deltalake and polars; DuckDB reads where its delta extension is installed.
"""

import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

import deltasql


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'lake.db'}"
        with deltasql.connect(url, location=f"{folder}/lake") as lake:
            table = lake.create_table(
                "events", pa.schema([("day", pa.string()), ("id", pa.int64())]), ["day"]
            )
            for day in ("2026-11-01", "2026-11-02"):
                table.append(pa.table({"day": [day] * 2, "id": [1, 2]}))
            table.overwrite(
                pa.table({"day": ["2026-11-01"], "id": [9]}), where="day = '2026-11-01'"
            )
            counts = {
                "deltasql": table.scan().to_arrow().num_rows,
                "delta-rs": DeltaTable(table.location).to_pyarrow_table().num_rows,
                "Polars": pl.read_delta(table.location).height,
                "Polars, version 1": pl.read_delta(table.location, version=1).height,
            }
            print(counts)
            assert list(counts.values()) == [3, 3, 3, 2]


if __name__ == "__main__":
    main()
