"""Buttons: what the dashboard's forms start and cancel."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Response

from deltasql.serve.access import Operator, Served
from deltasql.serve.api import jobs
from deltasql.serve.api.tables import Name
from deltasql.serve.pages.rendering import see, segment

router = APIRouter()


@router.post("/tables/{name}/jobs/{kind}")
def begin(
    service: Served,
    visitor: Operator,
    name: Name,
    kind: Annotated[Literal["validate", "repair", "check"], Path()],
) -> Response:
    """Begin a job, and show the table's page with it."""
    jobs.begin(service, visitor, kind, name)
    return see(f"/tables/{segment(name)}#jobs")


@router.post("/jobs/{job_id}/cancel")
def cancel(service: Served, visitor: Operator, job_id: jobs.JobId) -> Response:
    """Cancel a job, and show the page of its table."""
    job = jobs.find(service, visitor, job_id)
    service.jobs.cancel(job)
    return see(f"/tables/{segment(job.table or '')}#jobs")


@router.post("/tables/{name}/mirror/{action}")
def steer(
    service: Served,
    visitor: Operator,
    name: Name,
    action: Annotated[Literal["pause", "resume"], Path()],
) -> Response:
    """Pause a table's mirror, or let it go on."""
    mirror = service.table(visitor, name).mirror
    (mirror.pause if action == "pause" else mirror.resume)()
    return see(f"/tables/{segment(name)}")
