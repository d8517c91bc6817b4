"""The log in DuckDB: for one process that also wants to query it."""

from deltasql.store.duckdb.store import DuckdbStore

__all__ = ["DuckdbStore"]
