"""Tables taken out of the lake, and brought back: drop, undrop, purge."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from deltasql.cli.session import Session, TableName, command
from deltasql.errors import TableNotFoundError

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.upkeep.purging import PurgeReport

Dropped = Annotated[
    str,
    typer.Argument(help="A dropped table, by its name or id.", metavar="TABLE", show_default=False),
]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "drop",
        examples=["deltasql drop sales.orders --yes", "deltasql drop sales.orders --purge"],
        resume="deltasql tables --dropped shows whether it was dropped; purge continues a purge",
    )(drop)
    command(
        app,
        "undrop",
        examples=["deltasql undrop sales.orders", "deltasql undrop 7 --new-name sales.orders_old"],
    )(undrop)
    command(
        app,
        "purge",
        examples=["deltasql tables --dropped", "deltasql purge sales.orders --yes"],
        resume="run the same command to continue the purge",
    )(purge)


def drop(
    session: Session,
    table: TableName,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete its log and files as well, for good.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Take a table out of the lake.

    Its files and its history stay until it is purged; the name is free at once.
    """
    with session.lake() as lake:
        found = lake.table(table)
        if not yes:
            what = "Drop {!r}, and delete its log and files?" if purge else "Drop {!r}?"
            session.confirm(what.format(found.name))
        report = lake.drop_table(table, purge=purge)
    if report is None:
        session.out.done(
            f"{table} is dropped; undrop brings it back, purge deletes its files",
            {"table": table},
        )
        return
    _tell(session, report)


def purge(
    session: Session,
    table: Dropped,
    yes: Yes = False,
) -> None:
    """Delete the files, the log and the rows of a dropped table.

    Deletes only files that its log names; everything else at its location stays, and is listed.
    The same command continues a purge that was interrupted.
    """
    with session.lake() as lake:
        chosen = _chosen(lake, table)
        if not yes:
            session.confirm(f"Delete the log and the files of {table!r} for good?")
        report = lake.purge(chosen)
    _tell(session, report)


def undrop(
    session: Session,
    table: Dropped,
    new_name: Annotated[
        str | None,
        typer.Option("--new-name", help="A new name, if its old one is taken.", metavar="NAME"),
    ] = None,
) -> None:
    """Bring back a table that was dropped and not purged.

    All of its versions come back, at the same location.
    """
    with session.lake() as lake:
        found = lake.undrop(_chosen(lake, table), new_name=new_name)
        told = {"table": found.name, "version": found.version, "location": found.location}
    session.out.done(f"{told['table']} is back, at version {told['version']}", told)


def _chosen(lake: Lake, table: str) -> str | int:
    """The dropped table that is meant, by its name or id; raises if there is none."""
    found = lake.dropped()
    if table in {item.name for item in found}:
        return table
    if table.isdecimal() and int(table) in {item.table_id for item in found}:
        return int(table)
    raise TableNotFoundError(
        f"there is no dropped table {table}",
        cause="it was never dropped, or it has already been purged",
        remedy="deltasql tables --dropped lists them",
    )


def _tell(session: Session, report: PurgeReport) -> None:
    told = f"{report.table} is purged: {report.files} files and {report.log_files} log files gone"
    if report.kept_because:
        told = f"{report.table} is purged from SQL; its files stay: {report.kept_because}"
    elif report.kept_count:
        told += f"; {report.kept_count} others stay at {report.location}"
    session.out.done(told, asdict(report))
