"""The mirror: status, run, repair, validate, pause, resume, cleanup."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltasql.cli.failures import BEHIND, FAILED
from deltasql.cli.session import Session, TableName, command, complete_table
from deltasql.cli.text import counted

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.mirror import MirrorStatus
    from deltasql.mirror.repairing.report import RepairReport
    from deltasql.mirror.validation.validate import ValidationReport

app = typer.Typer(
    name="mirror",
    help="Watch, run and repair the mirror, the _delta_log.",
    no_args_is_help=True,
)

Tables = Annotated[
    list[str] | None,
    typer.Argument(
        help="Which tables; all by default.", metavar="TABLE", autocompletion=complete_table
    ),
]
_STATUS = ("table", "version", "mirrored_version", "lag_versions", "lag_seconds",
           "pending_checkpoints", "is_paused", "is_failed", "is_released",
           "gap_versions", "error_message")  # fmt: skip


@command(
    app,
    "status",
    examples=["deltasql mirror status", "deltasql mirror status sales.orders --output json"],
)
def status(session: Session, tables: Tables = None) -> None:
    """Show how far the mirror of each table is.

    The exit code is 3 if one is behind.
    """
    with session.lake() as lake:
        found = _chosen(lake, tables)
    session.out.table(
        _STATUS,
        [tuple(getattr(item, name) for name in _STATUS) for item in found],
        style=_colour,
    )
    if any(_is_behind(item) for item in found):
        raise typer.Exit(BEHIND)


def _colour(row: Sequence[Any]) -> str | None:
    shown = dict(zip(_STATUS, row, strict=True))
    return "red" if shown["is_failed"] else "yellow" if shown["lag_versions"] else None


def _chosen(lake: Lake, tables: list[str] | None) -> list[MirrorStatus]:
    if tables:
        return [lake.table(name).mirror.status() for name in tables]
    return lake.mirror.status()


def _is_behind(item: MirrorStatus) -> bool:
    return item.is_failed or item.lag_versions > 0 or item.gap_versions > 0


@command(
    app,
    "run",
    examples=[
        "deltasql mirror run --metrics-port 9108",
        "deltasql mirror run --once",
        "deltasql mirror run --set log.format=json --set mirror.parallelism=20",
    ],
)
def run(
    session: Session,
    once: Annotated[
        bool, typer.Option("--once", help="Mirror what is pending, checkpoints too, and exit.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            help="Serve Prometheus metrics on 127.0.0.1 at this port.",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = None,
) -> None:
    """Run the worker, until SIGTERM or Ctrl-C.

    It mirrors commits and writes checkpoints. It finishes what it is writing before it stops.
    Several workers may run, on any machines.
    """
    with session.lake(log_level="warning" if once else "info") as lake:
        if metrics_port is not None:
            from deltasql.telemetry.metrics import serve

            session.out.note(f"metrics at {serve(metrics_port)}")
        if not once:
            lake.mirror.run()
            return
        with session.out.progress("mirroring") as advance, _watched(lake, advance):
            written = lake.mirror.run(once=True)
        left = [item for item in lake.mirror.status() if _is_behind(item) and not item.is_paused]
    text = (
        f"{written:,} versions and checkpoints written, {counted(len(left), 'table')} still behind"
        if written or left
        else "nothing to mirror: no table is behind"
    )
    session.out.done(
        text,
        {"written": written, "behind": [item.table for item in left]},
    )
    if left:
        raise typer.Exit(BEHIND)


@contextmanager
def _watched(lake: Lake, advance: Any) -> Iterator[None]:
    """Tell how much of the backlog is gone, twice a second."""
    total = sum(item.lag_versions for item in lake.mirror.status())
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            left = sum(item.lag_versions for item in lake.mirror.status())
            advance(max(0, total - left), total)

    watcher = threading.Thread(target=look, name="deltasql-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@command(
    app,
    "repair",
    examples=[
        "deltasql mirror repair sales.orders",
        "deltasql mirror repair sales.orders --version=7",
        "deltasql mirror repair sales.orders --take-back",
        "deltasql mirror repair --all",
    ],
    resume="run the same command to continue; what is complete stays",
)
def repair(
    session: Session,
    table: Annotated[
        str | None,
        typer.Argument(
            help="Which table, unless --all.", metavar="TABLE", autocompletion=complete_table
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option("--version", help="This version only.", metavar="N", min=0),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Move aside objects that others wrote.")
    ] = False,
    take_back: Annotated[
        bool,
        typer.Option("--take-back", help="Take versions that only the mirror has back into SQL."),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Repair every table that deltasql writes.")
    ] = False,
) -> None:
    """Rewrite what was deleted or truncated.

    The exit code is 3 if drift remains.
    """
    if everything == (table is not None):
        raise typer.BadParameter("name a table, or pass --all", param_hint="TABLE")
    if everything and (version is not None or force or take_back):
        raise typer.BadParameter("--all can't be combined with --version, --force or --take-back")
    with session.lake() as lake, session.out.progress("comparing commits") as advance:
        if table is not None:
            report = lake.table(table).mirror.repair(
                version, force, take_back=take_back, progress=advance
            )
            reports = [report]
        else:
            found = lake.mirror.repair(lambda done, total, _: advance(done, total))
            reports = list(found.values())
    if table is not None:
        _show_repair(session, reports[0])
    else:
        _show_repairs(session, reports)
    if any(report.errors for report in reports):
        raise typer.Exit(FAILED)
    if not all(report.ok for report in reports):
        raise typer.Exit(BEHIND)


def _show_repair(session: Session, report: RepairReport) -> None:
    """What was found and done; of what was not, nothing."""
    values = {"ok": report.ok, **asdict(report)}
    if not session.out.is_json:
        values = {key: value for key, value in values.items() if value or key in ("ok", "table")}
        if report.ok and len(values) == 2:
            values["found"] = "nothing to repair"
    session.out.record(values)


def _show_repairs(session: Session, reports: Sequence[RepairReport]) -> None:
    names = ("table", "ok", "restored", "checkpoints", "mirrored", "conflicts", "ahead", "errors")
    session.out.table(
        names,
        [tuple(_listed(getattr(report, name)) for name in names) for report in reports],
        style=lambda row: None if row[1] else "red",
    )


def _listed(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


@command(
    app,
    "validate",
    examples=["deltasql mirror validate", "deltasql mirror validate sales.orders --version 7"],
    resume="nothing was changed; name tables to validate fewer",
)
def validate(
    session: Session,
    tables: Tables = None,
    version: Annotated[
        int | None,
        typer.Option("--version", help="As of this version, of one table.", metavar="N", min=0),
    ] = None,
) -> None:
    """Compare the mirror with SQL.

    Digests and live files are compared. The exit code is 3 if there is drift.
    """
    if version is not None and (tables is None or len(tables) != 1):
        raise typer.BadParameter("--version needs exactly one table")
    with session.lake() as lake, session.out.progress("validating") as advance:
        if tables:
            reports = []
            for number, name in enumerate(tables, start=1):
                table = lake.table(name)
                if len(tables) == 1:
                    reports.append(table.mirror.validate(version, progress=advance))
                else:
                    reports.append(table.mirror.validate(version))
                    advance(number, len(tables))
        else:
            found = lake.mirror.validate(lambda done, total, _: advance(done, total))
            reports = list(found.tables.values())
    _show_reports(session, reports)
    if not all(report.ok for report in reports):
        raise typer.Exit(BEHIND)


def _show_reports(session: Session, reports: Sequence[ValidationReport]) -> None:
    if session.out.is_json:
        names = list(asdict(reports[0])) if reports else []
        session.out.table(
            ("ok", *names),
            [(report.ok, *(getattr(report, name) for name in names)) for report in reports],
        )
        return
    session.out.table(
        ("table", "ok", "version", "first_drift", "lag_versions", "findings"),
        [
            (
                report.table,
                report.ok,
                report.version,
                report.first_drift,
                report.lag_versions,
                _findings(report),
            )
            for report in reports
        ],
        style=lambda row: None if row[1] else "red",
    )


def _findings(report: ValidationReport) -> str:
    told = []
    for name in ("missing", "extra", "different", "digest_mismatches", "missing_versions",
                 "foreign_versions"):  # fmt: skip
        found = getattr(report, name)
        if found:
            told.append(f"{name}: {', '.join(map(str, found[:3]))}{', …' * (len(found) > 3)}")
    flags = (
        "metadata_differs",
        "protocol_differs",
        "txns_differ",
        "domains_differ",
        "checksum_differs",
    )
    told += [name for name in flags if getattr(report, name)]
    told += [text for text in (report.error, report.reader_error) if text]
    return "; ".join(told)


@command(
    app,
    "export",
    examples=[
        "deltasql mirror export sales.orders s3://elsewhere/orders --copy-data",
    ],
    resume="run the same command to continue where it stopped",
)
def export(
    session: Session,
    table: TableName,
    place: Annotated[
        str, typer.Argument(help="An empty location.", metavar="URI", show_default=False)
    ],
    copy_data: Annotated[
        bool, typer.Option("--copy-data", help="Copy the data files as well.")
    ] = False,
) -> None:
    """Write the whole log to another location.

    Without --copy-data the copy refers to the data files where they are.
    """
    with session.lake() as lake, session.out.progress("exporting") as advance:
        report = lake.table(table).mirror.export(place, copy_data=copy_data, progress=advance)
    session.out.record(asdict(report))


@command(app, "pause", examples=["deltasql mirror pause sales.orders"])
def pause(session: Session, table: TableName) -> None:
    """Stop mirroring a table; its commits wait in SQL."""
    with session.lake() as lake:
        lake.table(table).mirror.pause()
    session.out.done(f"the mirror of {table} is paused", {"table": table, "is_paused": True})


@command(app, "resume", examples=["deltasql mirror resume sales.orders"])
def resume(session: Session, table: TableName) -> None:
    """Resume mirroring a table, where it stopped."""
    with session.lake() as lake:
        lake.table(table).mirror.resume()
    session.out.done(f"the mirror of {table} is resumed", {"table": table, "is_paused": False})


@command(
    app,
    "cleanup",
    examples=[
        "deltasql mirror cleanup sales.orders",
        "deltasql mirror cleanup sales.orders --delete",
    ],
)
def cleanup(
    session: Session,
    table: TableName,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete; otherwise only list what would be deleted.")
    ] = False,
) -> None:
    """Delete old commits from the mirror.

    Commits older than delta.logRetentionDuration are deleted; SQL keeps its own (see expire).
    """
    with session.lake() as lake:
        report = lake.table(table).mirror.cleanup(dry_run=not delete)
    values = asdict(report)
    if not session.out.is_json:
        values["cutoff"] = datetime.fromtimestamp(values.pop("cutoff_ms") / 1000, UTC)
    session.out.record(values)
