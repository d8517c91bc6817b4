"""Stock Delta readers on the mirror: delta-rs and DuckDB must see what we see."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from duckdb_extensions import import_extension

import deltasql
from deltasql.lake.table import Table
from tests.maintenance.tables import folder


def seen_by_all(lake: deltasql.Lake, table: Table) -> list[dict[str, object]]:
    """The rows of a table, after every reader has agreed on them."""
    lake.mirror.run(once=True)
    place = str(folder(table))
    ours = _sorted(table.scan().to_arrow())
    assert _sorted(pa.table(DeltaTable(place).to_pyarrow_table())) == ours, "delta-rs"
    with duckdb.connect() as connection:
        import_extension("delta", con=connection)
        connection.execute("LOAD delta")
        found = connection.execute("SELECT * FROM delta_scan(?)", [place]).to_arrow_table()
    assert _sorted(found) == ours, "DuckDB"
    return ours


def _sorted(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: sorted(map(str, row.items())))
