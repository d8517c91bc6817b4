"""Tables taken out of the lake: drop, purge."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from deltasql.cli.session import Session, TableName, command

if TYPE_CHECKING:
    from deltasql.lake.upkeep.purging import PurgeReport

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "drop",
        examples=["deltasql drop sales.orders --yes", "deltasql drop sales.orders --purge"],
    )(drop)
    command(
        app,
        "purge",
        examples=["deltasql tables --dropped", "deltasql purge sales.orders --yes"],
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
    if not yes:
        what = "Drop {!r}, and delete its log and files?" if purge else "Drop {!r}?"
        typer.confirm(what.format(table), abort=True)
    with session.lake() as lake:
        report = lake.drop_table(table, purge=purge)
    if report is None:
        session.out.done(f"{table} is dropped; purge deletes its files", {"table": table})
        return
    _tell(session, report)


def purge(
    session: Session,
    table: Annotated[
        str,
        typer.Argument(
            help="A dropped table, by its name or id.", metavar="TABLE", show_default=False
        ),
    ],
    yes: Yes = False,
) -> None:
    """Delete the files, the log and the rows of a dropped table.

    Deletes only files that its log names; everything else at its location stays, and is listed.
    The same command continues a purge that was interrupted.
    """
    if not yes:
        typer.confirm(f"Delete the log and the files of {table!r} for good?", abort=True)
    with session.lake() as lake:
        named = {item.name for item in lake.dropped()}
        is_id = table.isdecimal() and table not in named
        report = lake.purge(int(table) if is_id else table)
    _tell(session, report)


def _tell(session: Session, report: PurgeReport) -> None:
    told = f"{report.table} is purged: {report.files} files and {report.log_files} log files gone"
    if report.kept_because:
        told = f"{report.table} is purged from SQL; its files stay: {report.kept_because}"
    elif report.kept_count:
        told += f"; {report.kept_count} others stay at {report.location}"
    session.out.done(told, asdict(report))
