"""Small Parquet files of our own encoding, read by others."""

from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from deltasql.data.arrow_schema import to_arrow
from deltasql.spec.schema import Primitive, StructField, StructType
from tests.unit.data.test_small_parquet import _encoded


def test_duckdb_reads_it_and_prunes_by_its_statistics(tmp_path: Path) -> None:
    kinds = ("long", "string", "double", "boolean", "date", "timestamp")
    fields = [StructField(kind, Primitive(kind)) for kind in kinds]
    rows = {
        "long": [1, None, 3],
        "string": ["a", "ä", None],
        "double": [None, 0.5, -1.0],
        "boolean": [True, False, None],
        "date": [date(2026, 1, 2), None, date(1969, 1, 1)],
        "timestamp": [None, datetime(2026, 1, 2, 3, tzinfo=UTC), None],
    }
    table = pa.table(rows, schema=to_arrow(StructType(tuple(fields))))
    path = tmp_path / "small.parquet"
    path.write_bytes(_encoded(fields, table))

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(f"SELECT * FROM '{path}'").fetchall()
        met = connection.execute(f"SELECT long FROM '{path}' WHERE long >= 3").fetchall()
        missed = connection.execute(f"SELECT long FROM '{path}' WHERE long > 3").fetchall()

    wanted = [tuple(row.values()) for row in table.to_pylist()]
    assert [row[:-1] for row in found] == [row[:-1] for row in wanted]
    assert found[1][-1].timestamp() == wanted[1][-1].timestamp()
    assert (met, missed) == ([(3,)], [])
