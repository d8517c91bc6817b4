"""The source of a merge: loaded once into the engine, whatever its form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltasql.data.conform import as_arrow
from deltasql.data.expressions.engine import quoted
from deltasql.data.expressions.scope import OWN, Relation
from deltasql.data.expressions.session import Session
from deltasql.errors import SchemaMismatchError, ValidationError

SOURCE_ROW = f"{OWN}source"
SOURCE_TABLE = f"{OWN}source_rows"
# Types that Arrow has and Delta lacks, and the types in which a table would hold them.
_AS_DELTA = {
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INTEGER",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
}


class GivenRows:
    """The rows of a source as they were given: a stream can be read only once."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._is_read = False

    def read(self) -> pa.Table | pa.RecordBatchReader:
        """The rows; `ValidationError` if they are gone, since without them others would be too."""
        if self._is_read and isinstance(self._data, Iterator | pa.RecordBatchReader):
            raise ValidationError(
                "the source of the merge has been read already",
                cause=f"a {type(self._data).__name__} can be read only once",
                remedy="begin a new merge with a new stream, or pass a table",
            )
        self._is_read = True
        return as_arrow(self._data)


class MergeSource:
    """An engine table with the source's rows, each with a number."""

    def __init__(self, session: Session, given: GivenRows, alias: str) -> None:
        rows = given.read()
        self.schema: pa.Schema = rows.schema
        _must_differ(self.schema)
        engine = session.engine
        batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
        with engine.reading(self.schema, batches) as name:
            kinds = {row[0]: _kind(str(row[1])) for row in engine.rows(f"DESCRIBE {name}")}
            columns = [f"CAST({quoted(n)} AS {k}) AS {quoted(n)}" for n, k in kinds.items()]
            chosen = ", ".join([f"row_number() OVER () AS {SOURCE_ROW}", *columns])
            engine.rows(f"CREATE TEMP TABLE {SOURCE_TABLE} AS SELECT {chosen} FROM {name}")  # noqa: S608
        self.relation = Relation(alias, kinds)
        self.sql = f"{SOURCE_TABLE} AS {quoted(alias)}"
        self.count: int = engine.rows(f"SELECT count(*) FROM {SOURCE_TABLE}")[0][0]  # noqa: S608


def _kind(kind: str) -> str:
    return "VARCHAR" if kind.startswith("ENUM") else _AS_DELTA.get(kind, kind)


def _must_differ(schema: pa.Schema) -> None:
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise SchemaMismatchError(
                f"the source has two columns {name!r:.80}",
                cause="column names in Delta are case-insensitive",
                remedy="rename or drop one of them",
            )
        seen.add(name.lower())
