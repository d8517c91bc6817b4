"""Stock Delta readers on the mirror: delta-rs and DuckDB must see what we see."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

import deltasql
from deltasql.lake.table import Table
from tests.maintenance.tables import folder
from tests.readers.engines import DeltaRs, DuckDb


@cache
def _readers() -> dict[str, DeltaRs | DuckDb]:
    return {"delta-rs": DeltaRs(), "DuckDB": DuckDb()}


def seen_by_all(
    lake: deltasql.Lake, table: Table, *, but: str | None = None
) -> list[dict[str, object]]:
    """The rows of a table, after every reader, `but` one, has agreed on them."""
    lake.mirror.run(once=True)
    ours = _sorted(table.scan().to_arrow())
    for name, reader in _readers().items():
        if name == but:
            continue
        assert _sorted(reader.rows(str(folder(table)), None)) == ours, name
    return ours


def _sorted(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: sorted(map(str, row.items())))
