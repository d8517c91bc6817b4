"""Versions that leave the history: expire."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from deltasql.cli.session import AnyTable, DryRun, EnforceRetention, Session, command


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "expire",
        examples=[
            "deltasql expire sales.orders",
            "deltasql expire sales.orders --delete",
            'deltasql expire --retention "90 days" --delete',
        ],
    )(expire)


def expire(
    session: Session,
    table: AnyTable = None,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            help="How long versions stay, e.g. '30 days'; the table's own by default.",
            metavar="DURATION",
        ),
    ] = None,
    dry_run: DryRun = True,
    enforce_retention: EnforceRetention = True,
) -> None:
    """Expire versions that are older than the retention.

    By default nothing is deleted, only reported. The mirror's log is cleaned up as well.
    """
    with session.lake() as lake:
        for item in lake.tables() if table is None else [lake.table(table)]:
            if table is None and item.read_only is not None:
                continue
            report = item.expire(retention, dry_run, enforce_retention_duration=enforce_retention)
            done = "would expire" if report.dry_run else "expired"
            why = f" ({report.reason})" if report.reason else ""
            session.out.done(
                f"{report.table}: {report.versions} versions {done}; the oldest is "
                f"{report.kept_from}{why}",
                asdict(report),
            )
