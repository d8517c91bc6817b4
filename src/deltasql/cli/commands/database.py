"""The database of the log: migrate, status, grants, check, rebuild, sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltasql.cli.failures import BEHIND, spoken
from deltasql.cli.session import Session, TableName, command, complete_table

if TYPE_CHECKING:
    from deltasql.lake.upkeep.checks import CheckProgress

app = typer.Typer(
    name="db", help="Migrate, check and rebuild the database of the log.", no_args_is_help=True
)


@command(app, "migrate", examples=["deltasql db migrate", "deltasql db migrate --profile prod"])
def migrate(session: Session) -> None:
    """Migrate the database to the schema of this release.

    Either all migrations succeed, or nothing changes.
    """
    from deltasql.lake import database

    done = database.migrate(session.configuration())
    session.out.done(
        f"schema version {done.expected}: {done.expected - done.found} migrations applied",
        {"from": done.found, "to": done.expected},
    )


@command(app, "status", examples=["deltasql db status --output json"])
def status(session: Session) -> None:
    """Show which schema the database has.

    The exit code is 3 if it is not this release's.
    """
    from deltasql.lake import database

    found = database.status(session.configuration())
    told = asdict(found)
    session.out.record(told if session.out.is_json else _flat(told))
    if found.server.get("everybody_may_create") == "on":
        session.out.note(
            "every role may create functions in the log's schema, and have them run as others: "
            "REVOKE CREATE ON SCHEMA … FROM PUBLIC, as deltasql db grants does"
        )
    if found.found != found.expected:
        raise typer.Exit(BEHIND)


def _flat(told: dict[str, Any]) -> dict[str, Any]:
    """For people: what the server says is on lines of its own."""
    server, replica = told.pop("server"), told.pop("replica")
    return {
        "url": told.pop("url"),
        "schema_version": told.pop("found"),
        "expected_version": told.pop("expected"),
        **server,
        **{f"replica_{key}": value for key, value in replica.items()},
    }


@command(
    app,
    "grants",
    examples=[
        "deltasql db grants",
        "deltasql db grants --reader bi --writer etl --mirror worker | psql lake",
        "deltasql db grants --strict | psql lake",
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
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Writers can only call functions that check what they write.",
        ),
    ] = False,
) -> None:
    """Print PostgreSQL grants for three roles.

    Reader, writer, and mirror; nothing is changed.
    """
    from deltasql.lake import database

    text = database.grants(
        reader=reader, writer=writer, mirror=mirror, schema=schema, strict=strict
    )
    if session.out.is_json:
        session.out.record({"sql": text})
    else:
        session.out.raw(text.rstrip())
        if session.configuration().shown("url").startswith(("sqlite:", "duckdb:")):
            session.out.note(
                "these are for PostgreSQL; for a SQLite or DuckDB lake, the permissions of the "
                "file decide who may open it"
            )


@command(
    app,
    "check",
    examples=["deltasql db check", "deltasql db check sales.orders --full --output json"],
    resume="run the same command to continue with the remaining tables (--full starts over)",
)
def check(
    session: Session,
    table: Annotated[
        str | None,
        typer.Argument(
            help="Which table; all by default.", metavar="TABLE", autocompletion=complete_table
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Start at the first version, even if it was checked before."),
    ] = False,
) -> None:
    """Check the log against its own commits.

    This covers rows, heads and the mirror's checkpoints. The exit code is 3 if something is
    damaged.
    """
    with session.lake() as lake, session.out.progress("checking") as advance:
        names = [item.name for item in lake.tables()] if table is None else []

        def step(at: CheckProgress) -> None:
            if table is not None:
                advance(at.version + 1, at.newest + 1)
            elif at.table in names:
                advance(names.index(at.table), len(names))

        report = lake.check(table, full=full, progress=step)
    found = [
        (item.table, finding.kind.value, finding.version, finding.path, finding.problem,
         spoken(finding.remedy))
        for item in report.tables.values()
        for finding in item.findings
    ]  # fmt: skip
    session.out.table(
        ("table", "kind", "version", "path", "problem", "remedy"), found, empty="nothing is damaged"
    )
    for item in report.tables.values():
        more = f", {item.omitted} more findings" if item.omitted else ""
        begun = "its first version" if item.since < 0 else f"version {item.since}"
        session.out.note(
            f"{item.table}: {'ok' if item.ok else 'damaged'} at version {item.version}, "
            f"{item.files} file{'s' * (item.files != 1)}, replayed from {begun}{more}"
        )
    if not report.ok:
        raise typer.Exit(BEHIND)


@command(app, "rebuild", examples=["deltasql db rebuild sales.orders"])
def rebuild(session: Session, table: TableName) -> None:
    """Rebuild a table's rows from its commits.

    This is one transaction: commits to the table wait until it ends.
    """
    with session.lake() as lake, session.out.progress("rebuilding") as advance:
        done = lake.rebuild(table, progress=lambda at: advance(at.version + 1, at.newest + 1))
    session.out.done(
        f"{done.table}: the rows of {done.versions} commits rebuilt, {done.files} files at "
        f"version {done.version}",
        asdict(done),
    )


@command(app, "sessions", examples=["deltasql db sessions", "deltasql db sessions --output json"])
def sessions(session: Session) -> None:
    """List who writes to the lake, and which versions are held.

    Vacuum keeps the files that they have written and not yet committed, and the versions that
    they hold.
    """
    with session.lake() as lake:
        found = lake.sessions()
    session.out.table(
        ("kind", "host", "pid", "committer", "started", "heartbeat", "writing since", "alive",
         "holds", "session"),
        [
            (item.kind, item.host, item.pid, item.committer, item.started_at, item.heartbeat_at,
             item.writing_since, item.is_alive,
             ", ".join(f"{table} at {version}" for table, version in item.holds), item.session_id)
            for item in found
        ],
        brief=("kind", "host", "pid", "committer", "heartbeat", "writing since", "holds"),
        empty="nobody writes to the lake, and no version is held",
    )  # fmt: skip
