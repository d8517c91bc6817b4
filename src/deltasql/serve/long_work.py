"""The work of jobs: validate, repair and check, with progress, and cancellable."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from deltasql.lake.catalog import Lake
from deltasql.mirror.repairing.repair import repair
from deltasql.mirror.validation.validate import validate
from deltasql.objectstore import ObjectStore
from deltasql.serve.jobs import Job


class _Watched:
    """An object store that reports each call to a job, so that the job can end there."""

    def __init__(self, objects: ObjectStore, job: Job, expected: int) -> None:
        self._objects = objects
        self._job = job
        self._expected = expected
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._objects, name)
        if not callable(found):
            return found

        def told(*arguments: Any, **options: Any) -> Any:
            self._calls += 1
            self._job.step(self._calls, max(self._expected, self._calls))
            return found(*arguments, **options)

        return told


def _watched(lake: Lake, name: str, job: Job) -> Any:
    table = lake.table(name)
    return _Watched(table.objects, job, expected=table.version + 2)


def validate_table(lake: Lake, name: str, job: Job) -> dict[str, Any]:
    """Compare the mirror of a table with SQL."""
    table = lake.table(name)
    report = validate(
        lake.store, _watched(lake, name, job), table.target, options=lake.reader_options
    )
    return {"ok": report.ok, **asdict(report)}


def repair_table(lake: Lake, name: str, job: Job, *, force: bool) -> dict[str, Any]:
    """Write again what a table's mirror lacks. If interrupted, it starts over."""
    table = lake.table(name)
    try:
        report = repair(
            lake.engine, lake.store, _watched(lake, name, job), table.target, force=force
        )
    finally:
        lake.states.forget(table.table_id)
    return {"ok": report.ok, **asdict(report)}


def check_table(lake: Lake, name: str, job: Job, *, full: bool) -> dict[str, Any]:
    """Replay the commits of a table against its rows."""
    report = lake.check(
        name, full=full, progress=lambda at: job.step(at.version + 1, at.newest + 1)
    )
    (found,) = report.tables.values()
    return {
        "ok": found.ok,
        "table": name,
        "version": found.version,
        "files": found.files,
        "omitted": found.omitted,
        "findings": [
            {
                "kind": item.kind.value,
                "version": item.version,
                "path": item.path,
                "problem": item.problem,
                "remedy": item.remedy,
            }
            for item in found.findings[:100]
        ],
    }
