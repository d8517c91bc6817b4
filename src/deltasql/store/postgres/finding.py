"""Whether a role can see where the log is, or is to be."""

from __future__ import annotations

from deltasql.errors import DatabaseError
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.reader import SQL


def must_see_a_schema(connection: LogConnection, mode: str) -> None:
    """Raise `DatabaseError` if the log that was not found lies where this role may not look, or if
    it may use no schema at all.

    With a schema of its own, a role that may create tables (mode `create`) is free to have a log of
    its own there.
    """
    ((path, current),) = connection.execute(SQL["schemas_used"]).fetchall()
    if current is not None and mode == "create":
        return
    closed = connection.execute(SQL["schemas_closed"]).fetchall()
    for schema, has_log in closed:
        if has_log:
            raise DatabaseError(
                f"this role may not use the schema {schema}, which has the log",
                cause="it lacks USAGE on the schema, so it sees none of its tables",
                remedy="the owner of the log's tables can grant it, with all else that the role "
                "needs: deltasql db grants --writer ROLE | psql, or with --reader or --mirror, "
                "whichever describes what the role does",
                is_refusal=True,
            )
    if current is None:
        first = closed[0][0] if closed else "public"
        raise DatabaseError(
            "this role can use no schema of the database",
            cause=f"it looks in {path} (search_path): none of these exists and grants it USAGE",
            remedy=f"GRANT USAGE, CREATE ON SCHEMA {first} TO this role, if it is to create the "
            "log; or name another schema in the URL: ?options=-csearch_path%3DNAME",
            is_refusal=True,
        )
