"""The log in SQLite: for one machine, with as many processes as it likes."""

from deltasql.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
