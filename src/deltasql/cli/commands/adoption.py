"""Existing Delta tables taken in, one or all of a place, and handed back."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltasql.cli.failures import FAILED
from deltasql.cli.session import Session, TableName, command

if TYPE_CHECKING:
    from deltasql.lake.upkeep.recovering import RecoveryReport

Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        help="A folder outside the table that its log refers to, as shallow clones do; repeatable.",
        metavar="URI",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "adopt",
        examples=[
            "deltasql adopt s3://bucket/old/orders sales.orders --dry-run",
            "deltasql adopt ./old/orders sales.orders",
            "deltasql adopt s3://bucket/clone sales.clone --allow s3://bucket/old/orders",
            "deltasql adopt ./old/orders --abandon",
        ],
        resume="run the same command to continue, or with --abandon to give up",
    )(adopt)
    command(
        app,
        "recover",
        examples=[
            "deltasql recover",
            "deltasql recover s3://bucket/old --dry-run",
            "deltasql recover s3://bucket/old",
        ],
        resume="run the same command to adopt the remaining tables",
    )(recover)
    command(app, "release", examples=["deltasql release sales.orders --yes"])(release)


def adopt(
    session: Session,
    place: Annotated[
        str,
        typer.Argument(help="Where the Delta table is.", metavar="URI", show_default=False),
    ],
    name: Annotated[
        str | None,
        typer.Argument(help="Its name in the lake.", metavar="NAME", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the whole log, write nothing, and report.")
    ] = False,
    fence: Annotated[
        bool,
        typer.Option(
            help="Keep other writers out; without a fence their commits can collide with yours."
        ),
    ] = True,
    validate: Annotated[
        bool, typer.Option(help="First compare some versions with another Delta reader.")
    ] = True,
    unmirrored: Annotated[
        str,
        typer.Option(
            "--unmirrored",
            help="What to do with versions of a dropped table that its log lacks: refuse, write "
            "them to the log first, or discard them.",
            metavar="CHOICE",
        ),
    ] = "refuse",
    allow: Allow = None,
    abandon: Annotated[
        bool,
        typer.Option("--abandon", help="Abandon an unfinished adoption of this place."),
    ] = False,
) -> None:
    """Adopt an existing Delta table, with its history.

    Its files stay where they are. Stop its other writers first.
    """
    if abandon:
        _abandon(session, place)
        return
    if name is None:
        raise typer.BadParameter(
            "give the table a name in the lake, such as sales.orders", param_hint="NAME"
        )
    with session.lake() as lake, session.out.progress("reading the log") as advance:
        how: dict[str, Any] = {
            "fence": fence,
            "unmirrored": unmirrored,
            "allow": allow or (),
            "progress": lambda step: advance(step.version + 1, step.newest + 1),
        }
        if dry_run:
            told = asdict(lake.adopt(place, name, dry_run=True, **how))
        else:
            found = lake.adopt(place, name, dry_run=False, validate=validate, **how)
            told = {
                "table": found.name,
                "version": found.version,
                "location": found.location,
                "read_only": found.read_only,
            }
    if dry_run:
        session.out.record(told)
        return
    text = f"{name} is in the lake, at version {told['version']}"
    if told["read_only"]:
        text += f"; read only: {told['read_only']}"
    session.out.done(text, told)


def _abandon(session: Session, place: str) -> None:
    with session.lake() as lake:
        given_up = lake.abandon_adoption(place)
    text = f"the adoption of {given_up.location} was abandoned, and its location is free"
    if given_up.is_fenced:
        text += "; its log already has the fence: adopt and release it to let others write"
    session.out.done(text, asdict(given_up))


def recover(  # noqa: PLR0913 - the options
    session: Session,
    place: Annotated[
        str | None,
        typer.Argument(
            help="Where the tables are; by default the lake's location.",
            metavar="LOCATION",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read all logs, write nothing, and report.")
    ] = False,
    fence: Annotated[
        bool,
        typer.Option(
            help="Keep other writers out; without a fence their commits can collide with yours."
        ),
    ] = True,
    validate: Annotated[
        bool, typer.Option(help="First compare some versions with another Delta reader.")
    ] = True,
    allow: Allow = None,
    parallelism: Annotated[
        int,
        typer.Option("--parallelism", help="How many tables to read at once.", metavar="N", min=1),
    ] = 4,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            help="How many tables to adopt at most; by default all, or as many as you confirm.",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = None,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="Search a whole disk or home folder, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")] = False,
) -> None:
    """Adopt every Delta table below a location.

    Use it after the database was lost. Names come from the folders: sales/orders becomes
    sales.orders. On a terminal it lists tables outside of the lake's location first, and asks. If
    it is interrupted, run it again. The exit code is 1 if a table could not be adopted.
    """
    from deltasql.lake.locations import absolute, is_own

    with session.lake() as lake:

        def run(*, dry: bool, most: int | None) -> RecoveryReport:
            doing = "looking for tables" if dry else "recovering tables"
            with session.out.progress(doing) as advance:
                return lake.recover(
                    place,
                    dry_run=dry,
                    fence=fence,
                    validate=validate,
                    allow=allow or (),
                    parallelism=parallelism,
                    limit=most,
                    anywhere=anywhere,
                    progress=lambda done, total, _: advance(done, total),
                )

        is_elsewhere = place is not None and not is_own(lake, absolute(place))
        if is_elsewhere and not dry_run and not yes and sys.stdin.isatty():
            found = run(dry=True, most=None)
            _list(session, found)
            count = sum(table.status == "found" for table in found.tables)
            if count:
                locked = " Their other writers are locked out" if fence else ""
                what = "this table" if count == 1 else f"these {count} tables"
                session.confirm(f"Adopt {what} outside of the lake's location?{locked}")
            limit = count if limit is None else limit
        report = run(dry=dry_run, most=limit)
    _list(session, report)
    if not report.ok:
        raise typer.Exit(FAILED)


def _list(session: Session, report: RecoveryReport) -> None:
    columns = ("table", "status", "version", "location", "read_only", "problem", "remedy")
    session.out.table(
        columns,
        [[getattr(item, name) for name in columns] for item in report.tables],
        style=lambda row: "red" if row[1] == "failed" else None,
        brief=("table", "status", "version", "problem"),
    )


def release(
    session: Session,
    table: TableName,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")] = False,
) -> None:
    """Hand a table back to plain Delta writers.

    Everything is mirrored, then the fence is removed. From then on deltasql only reads it.
    """
    with session.lake() as lake:
        released = lake.table(table)
        if not yes:
            session.confirm(f"Hand {table!r} back? deltasql will no longer write it")
        version = released.release()
        told = {"table": table, "version": version, "location": released.location}
    session.out.done(f"{table} is plain Delta again, from version {version}", told)
