"""Versions that leave the history: expire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltasql.cli.session import AnyTable, DryRun, EnforceRetention, Session, command
from deltasql.cli.text import counted

if TYPE_CHECKING:
    from deltasql.maintenance.expiring import ExpireReport


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
        reports = (
            item.expire(retention, dry_run, enforce_retention_duration=enforce_retention)
            for item in (lake.tables() if table is None else [lake.table(table)])
            if table is not None or item.read_only is None
        )
        nothing = "no versions to expire" if dry_run else "no versions expired"
        session.out.reports(reports, _told, nothing, single=table is not None)


# What most tables say most of the time.
_USUAL = (None, "", "no version is that old")


def _told(report: ExpireReport) -> str:
    why = f" ({report.reason})" if report.reason else ""
    if not report.versions:
        return f"{report.table}: {report.reason}" if report.reason not in _USUAL else ""
    done = "to expire" if report.dry_run else "expired"
    return (
        f"{report.table}: {counted(report.versions, 'version')} {done}; the oldest "
        f"{'would be' if report.dry_run else 'is'} {report.kept_from}{why}"
    )
