"""The database of the log: migrate, status, grants."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from deltasql.cli.failures import BEHIND
from deltasql.cli.session import Session, command

app = typer.Typer(name="db", help="The database that holds the log.", no_args_is_help=True)


@command(app, "migrate", examples=["deltasql db migrate", "deltasql db migrate --profile prod"])
def migrate(session: Session) -> None:
    """Bring the database to the schema of this release.

    All or nothing.
    """
    from deltasql import databases

    done = databases.migrate(session.configuration())
    session.out.done(
        f"schema version {done.expected}: {done.expected - done.found} migrations applied",
        {"from": done.found, "to": done.expected},
    )


@command(app, "status", examples=["deltasql db status --output json"])
def status(session: Session) -> None:
    """Say which schema the database has.

    The exit code is 3 if it is not this release's.
    """
    from deltasql import databases

    found = databases.status(session.configuration())
    session.out.record(asdict(found))
    if found.found != found.expected:
        raise typer.Exit(BEHIND)


@command(
    app,
    "grants",
    examples=[
        "deltasql db grants",
        "deltasql db grants --reader analysts --writer etl --mirror worker | psql lake",
    ],
)
def grants(
    session: Session,
    reader: Annotated[
        str, typer.Option("--reader", help="Role that reads.", metavar="ROLE")
    ] = "deltasql_reader",
    writer: Annotated[
        str, typer.Option("--writer", help="Role that reads and commits.", metavar="ROLE")
    ] = "deltasql_writer",
    mirror: Annotated[
        str, typer.Option("--mirror", help="Role of the mirror's worker.", metavar="ROLE")
    ] = "deltasql_mirror",
    schema: Annotated[
        str, typer.Option("--schema", help="PostgreSQL schema of the log.", metavar="NAME")
    ] = "public",
) -> None:
    """Print PostgreSQL grants for three roles.

    Reader, writer, and mirror; nothing is changed.
    """
    from deltasql import databases

    text = databases.grants(reader=reader, writer=writer, mirror=mirror, schema=schema)
    if session.out.is_json:
        session.out.record({"sql": text})
    else:
        session.out.raw(text.rstrip())
