"""Upkeep in the background: queue, run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from deltasql.cli.session import Session, command

if TYPE_CHECKING:
    from deltasql.lake.upkeep.background import MaintenanceJob

app = typer.Typer(
    name="maintenance", help="Run the upkeep that is due, or list it.", no_args_is_help=True
)

_COLUMNS = ("work", "table", "state", "reason", "queued", "started", "ended", "bytes", "outcome",
            "holder")  # fmt: skip


@command(
    app,
    "queue",
    examples=["deltasql maintenance queue", "deltasql maintenance queue --output json"],
)
def queue(session: Session) -> None:
    """List what is waiting, running and done.

    Workers queue what is due if maintenance.auto is on.
    """
    with session.lake() as lake:
        _tell(session, lake.maintenance.queue())


@command(app, "run", examples=["deltasql maintenance run"])
def run(session: Session) -> None:
    """Queue what is due, run it, and list what was done.

    This works even if maintenance.auto is off; maintenance.bytes_per_hour applies.
    """
    with session.lake() as lake:
        _tell(session, lake.maintenance.run())


def _tell(session: Session, jobs: list[MaintenanceJob]) -> None:
    session.out.table(
        _COLUMNS,
        [
            (job.work, job.table, job.state, job.reason, job.queued_at, job.started_at,
             job.ended_at, job.size_bytes, job.outcome, job.holder)
            for job in jobs
        ],
        brief=("work", "table", "state", "reason", "queued", "outcome"),
        empty="nothing is queued",
    )  # fmt: skip
