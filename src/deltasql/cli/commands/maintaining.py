"""Tables kept in shape: vacuum, leftovers, optimize, restore."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from deltasql.cli.session import AnyTable, DryRun, EnforceRetention, Session, TableName, command
from deltasql.cli.text import counted, in_units

if TYPE_CHECKING:
    from deltasql.maintenance.vacuuming.report import VacuumReport


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "vacuum",
        examples=[
            "deltasql vacuum sales.orders",
            "deltasql vacuum sales.orders --delete",
            'deltasql vacuum --retention "30 days" --delete',
        ],
        resume="run the same command to continue",
    )(vacuum)
    command(
        app,
        "leftovers",
        examples=["deltasql leftovers", 'deltasql leftovers --age "30 days"'],
    )(leftovers)
    command(
        app,
        "optimize",
        examples=[
            "deltasql optimize sales.orders",
            "deltasql optimize sales.orders --where \"day = '2026-11-01'\"",
            "deltasql optimize sales.orders --target-size '256 MB'",
            "deltasql optimize sales.orders --zorder-by customer --zorder-by day",
            "deltasql optimize sales.orders --purge",
        ],
        resume="run the same command to compact the rest",
    )(optimize)
    command(
        app,
        "restore",
        examples=[
            "deltasql restore sales.orders --version 7",
            "deltasql restore sales.orders --timestamp 2026-11-01T12:00:00Z",
        ],
    )(restore)


def vacuum(
    session: Session,
    table: AnyTable = None,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            help="How long old versions stay readable, e.g. '7 days'; the table's own by default.",
            metavar="DURATION",
        ),
    ] = None,
    dry_run: DryRun = True,
    enforce_retention: EnforceRetention = True,
) -> None:
    """Delete files that no version within the retention needs.

    By default nothing is deleted, only reported. The same command continues a vacuum that was
    interrupted.
    """
    with session.lake() as lake:
        tables = lake.tables() if table is None else [lake.table(table)]
        reports = (
            item.vacuum(retention, dry_run, enforce_retention_duration=enforce_retention)
            for item in tables
            if table is not None or item.read_only is None
        )
        nothing = "no files to delete" if dry_run else "no files deleted"
        session.out.reports(reports, _told, nothing, single=table is not None)


def _told(report: VacuumReport) -> str:
    kept = report.kept_because or ""
    if not report.count:
        return kept and f"{report.table}: {kept}"
    done = "to delete" if report.dry_run else "deleted"
    told = f"{report.table}: {counted(report.count, 'file')} {done} ({in_units(report.bytes)})"
    parts = [
        f"{number} {word}"
        for number, word in (
            (report.dead, "dead"),
            (report.vectors, "deletion vectors"),
            (report.changes, "changes"),
            (report.orphans, "orphans"),
        )
        if number
    ]
    told += f": {', '.join(parts)}" if parts else ""
    return told + (f"; {kept}" if kept else "")


def leftovers(
    session: Session,
    age: Annotated[
        str | None,
        typer.Option(
            "--age",
            help="Only what is older, e.g. '30 days'; a week by default.",
            metavar="DURATION",
        ),
    ] = None,
) -> None:
    """Find files that belong to no table.

    Processes that died while creating a table leave such files. Nothing is deleted: look at the
    folders, and delete them in the object store.
    """
    with session.lake() as lake:
        found = lake.leftovers(age)
    for item in found:
        files = f"{item.files} {'file' if item.files == 1 else 'files'}"
        last = f"the last of {item.modified:%Y-%m-%d}"
        session.out.done(f"{item.location}: {files} ({in_units(item.bytes)}), {last}", asdict(item))
    if not found:
        session.out.note("nothing is left over")


def optimize(
    session: Session,
    table: TableName,
    where: Annotated[
        str | None,
        typer.Option("--where", help="Which partitions; all by default.", metavar="CONDITION"),
    ] = None,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size",
            help="How large files should be; the table's own, or 128 MB, by default.",
            metavar="SIZE",
        ),
    ] = None,
    zorder_by: Annotated[
        list[str] | None,
        typer.Option("--zorder-by", help="Order rows by this column; repeatable.", metavar="NAME"),
    ] = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Only remove deleted rows from files.")
    ] = False,
) -> None:
    """Compact small files, and those with many deleted rows.

    No row changes. Run it in several processes to share the work.
    """
    with session.lake() as lake, session.out.progress(f"optimizing {table}") as advance:
        done = lake.table(table).optimize(
            where, target_size, zorder_by or (), purge=purge, progress=advance
        )
    told = done.metrics
    text = (
        f"{table}: {counted(told['numRemovedFiles'], 'file')} "
        f"({in_units(told['numRemovedBytes'])}) became {told['numAddedFiles']:,} "
        f"({in_units(told['numAddedBytes'])}) in {counted(len(done.versions), 'commit')}"
        if done.versions
        else f"{table}: nothing to compact"
    )
    left = f"; {counted(done.skipped, 'bin')} left for the next run" if done.skipped else ""
    session.out.done(text + left, asdict(done))


def restore(
    session: Session,
    table: TableName,
    version: Annotated[
        int | None, typer.Option("--version", help="Which version.", metavar="N")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", help="The time to restore, ISO-8601.", metavar="TIME"),
    ] = None,
) -> None:
    """Restore a table to an earlier version, as a new commit.

    The versions in between stay in the history.
    """
    with session.lake() as lake:
        done = lake.table(table).restore(version, timestamp)
    session.out.done(
        f"{table} is as it was at version {done.restored_version}: version {done.version}, "
        f"{counted(done.metrics['numRestoredFiles'], 'file')} restored, "
        f"{done.metrics['numRemovedFiles']:,} removed",
        asdict(done),
    )
