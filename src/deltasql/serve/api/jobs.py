"""Jobs over HTTP: validate, repair and check begin here, and are watched and cancelled."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from deltasql.serve import long_work
from deltasql.serve.access import Operator, Reader, Served
from deltasql.serve.api.tables import Name
from deltasql.serve.jobs import Job
from deltasql.serve.problems import Refused
from deltasql.serve.service import Service
from deltasql.serve.tokens import Visitor

router = APIRouter(prefix="/api/v1", tags=["jobs"])

JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


@router.post("/tables/{name}/validate", status_code=202)
def validate(service: Served, visitor: Operator, name: Name) -> dict[str, Any]:
    """Begin to compare the table's mirror with SQL."""
    return begin(service, visitor, "validate", name).told()


@router.post("/tables/{name}/repair", status_code=202)
def repair(
    service: Served, visitor: Operator, name: Name, *, force: Annotated[bool, Query()] = False
) -> dict[str, Any]:
    """Begin to write what the table's mirror lacks; `force` moves foreign objects aside."""
    return begin(service, visitor, "repair", name, force=force).told()


@router.post("/tables/{name}/check", status_code=202)
def check(
    service: Served, visitor: Operator, name: Name, *, full: Annotated[bool, Query()] = False
) -> dict[str, Any]:
    """Begin to replay the table's commits against its rows."""
    return begin(service, visitor, "check", name, full=full).told()


@router.get("/jobs")
def jobs(service: Served, visitor: Reader) -> list[dict[str, Any]]:
    """The jobs of this instance, newest first."""
    return [job.told() for job in service.jobs.newest(visitor.sees)]


@router.get("/jobs/{job_id}")
def job(service: Served, visitor: Reader, job_id: JobId) -> dict[str, Any]:
    """How far a job is, and what it found."""
    return find(service, visitor, job_id).told()


@router.api_route("/jobs/{job_id}", methods=["DELETE"], status_code=202)
def cancel(service: Served, visitor: Operator, job_id: JobId) -> dict[str, Any]:
    """Ask a job to end at its next step."""
    found = find(service, visitor, job_id)
    service.jobs.cancel(found)
    return found.told()


def find(service: Service, visitor: Visitor, job_id: str) -> Job:
    """A job that the visitor may see, or `Refused`."""
    found = service.jobs.find(job_id)
    if found is None or not visitor.sees(found.table or ""):
        raise Refused(
            404,
            "there is no such job",
            cause="each instance keeps only the newest of the jobs that it runs",
            remedy="begin it again",
        )
    return found


def begin(service: Service, visitor: Visitor, kind: str, name: str, **options: bool) -> Job:
    """Begin a job on a table that the visitor may see."""
    service.table(visitor, name)
    lake = service.lake

    def work(job: Job) -> dict[str, Any]:
        if kind == "validate":
            return long_work.validate_table(lake, name, job)
        if kind == "repair":
            return long_work.repair_table(lake, name, job, force=options.get("force", False))
        return long_work.check_table(lake, name, job, full=options.get("full", False))

    return service.jobs.begin(kind, name, visitor.name, work, **options)
