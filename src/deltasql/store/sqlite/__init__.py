"""The log in SQLite: for one machine, with any number of processes."""

from deltasql.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
