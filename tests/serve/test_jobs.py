"""Jobs: which are the same, how one that waits is cancelled, how many there may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from deltasql.serve.jobs import Job, Jobs, State
from deltasql.serve.problems import Refused
from tests.faults.waiting import until
from tests.serve.conftest import seed, start


class Stuck:
    """Work that goes on until it is told to end."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.begun: list[str] = []

    def __call__(self, job: Job) -> dict[str, object]:
        self.begun.append(job.job_id)
        assert self.end.wait(20)
        job.step()
        return {"ok": True}


@pytest.fixture
def work() -> Stuck:
    return Stuck()


@pytest.fixture
def jobs(work) -> Iterator[Jobs]:
    found = Jobs()
    yield found
    work.end.set()
    found.close()


def test_another_option_is_another_job(jobs, work):
    """Who asks for repair by force must not be given one without."""
    plain = jobs.begin("repair", "t", "ana", work, force=False)
    assert jobs.begin("repair", "t", "bob", work, force=False) is plain
    forced = jobs.begin("repair", "t", "ana", work, force=True)
    assert forced is not plain
    assert (plain.told()["options"], forced.told()["options"]) == (
        {"force": False},
        {"force": True},
    )
    assert jobs.begin("repair", "u", "ana", work, force=False) is not plain
    assert jobs.begin("check", "t", "ana", work, full=False) is not plain


def test_one_that_waits_is_cancelled_at_once(jobs, work):
    """Not when those before it have ended, which may be hours later."""
    running = [jobs.begin("check", name, "ana", work) for name in ("a", "b")]
    until(lambda: len(work.begun) == 2)
    waiting = jobs.begin("check", "c", "ana", work)
    jobs.cancel(waiting)
    assert waiting.state is State.CANCELLED
    assert waiting.ended_at is not None
    again = jobs.begin("check", "c", "ana", work)
    assert again is not waiting
    work.end.set()
    until(lambda: again.is_over)
    assert waiting.job_id not in work.begun
    assert [item.state for item in (*running, again)] == [State.DONE] * 3
    # What is over stays as it ended.
    jobs.cancel(again)
    assert again.state is State.DONE


def test_only_so_many_wait(jobs, work):
    begun = [jobs.begin("check", str(number), "ana", work) for number in range(50)]
    with pytest.raises(Refused) as refused:
        jobs.begin("check", "more", "ana", work)
    assert refused.value.status == 429
    jobs.cancel(begun[-1])
    assert jobs.begin("check", "more", "ana", work)


def test_what_a_job_has_found_is_not_called_up_to_date(tmp_path):
    """The page that shows the finding, the overview and the badge agree."""
    seed(tmp_path)
    running = start(tmp_path)
    try:
        http, page = running.http, "/tables/sales.orders"
        lost = tmp_path / "lake/sales/orders/_delta_log/00000000000000000003.json"
        lost.unlink()
        _ended(http, http.post("/api/v1/tables/sales.orders/validate").json()["id"])
        # A page from before the end may be shown for a moment.
        until(lambda: "mirror drifted" in http.get(page).text)
        until(lambda: "1 table needs a look" in http.get("/").text)
        assert ">drift</span>" in http.get("/").text
        _ended(http, http.post("/api/v1/tables/sales.orders/repair").json()["id"])
        until(lambda: "mirror drifted" not in http.get(page).text)
        until(lambda: "Every mirror is up to date" in http.get("/").text)
    finally:
        http.close()
        assert running.stop() == 0


def _ended(http, job_id):
    over = ("done", "failed", "cancelled")
    until(lambda: http.get(f"/api/v1/jobs/{job_id}").json()["state"] in over)
