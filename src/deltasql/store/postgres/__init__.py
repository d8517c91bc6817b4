"""The log in PostgreSQL: for teams, many writers, and many tables in one transaction."""

from deltasql.store.postgres.replicas.store import ReplicatedStore
from deltasql.store.postgres.store import PostgresStore

__all__ = ["PostgresStore", "ReplicatedStore"]
