"""Several instances side by side on one lake: each answers for all, none does a thing twice."""

from __future__ import annotations

import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

import deltasql
from tests.faults.waiting import until
from tests.serve.conftest import ORDERS, start
from tests.sizes import FULL

pytestmark = pytest.mark.postgres
T = "/api/v1/tables/sales.orders"
COMMITS = 30


@pytest.fixture
def pair(postgres_url, tmp_path):
    """Two instances, each with a worker, and what they share."""
    location = str(tmp_path / "lake")
    with deltasql.connect(postgres_url, location=location) as lake:
        lake.create_table("sales.orders", ORDERS)
        both = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            both.append(start(tmp_path / name, url=postgres_url, location=location))
        yield lake, both
        for running in both:
            running.http.close()
            running.stop()
            assert "Traceback" not in (running.folder / "service.log").read_text()


def test_each_commit_becomes_one_version(pair):
    """Every commit is sent to both at once, by four writers."""
    lake, both = pair

    def send(number: int) -> set[int]:
        body = {
            "commit_id": f"c{number}",
            "actions": [{"txn": {"appId": f"a{number}", "version": 1}}],
        }
        with ThreadPoolExecutor(2) as pool:
            sent = pool.map(lambda item: item.http.post(f"{T}/commits", json=body), both)
            answers = list(sent)
        assert sorted(item.status_code for item in answers) in ([200, 201], [201, 201]), answers
        return {item.json()["version"] for item in answers}

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(send, range(COMMITS)))
    assert sorted(min(found) for found in versions) == list(range(1, COMMITS + 1))
    assert all(len(found) == 1 for found in versions), "both answers name the same version"
    table = lake.table("sales.orders")
    until(lambda: table.mirror.status().mirrored_version == COMMITS, limit=60)
    assert table.mirror.validate().ok
    assert lake.check().ok
    # Each tells of everybody's, a moment later.
    wanted = f"{COMMITS}.0"
    until(lambda: {_versions(item.http.get("/metrics").text) for item in both} == {wanted})


def _versions(metrics: str) -> str:
    return re.search(r"^lake_versions_total (\S+)$", metrics, re.MULTILINE)[1]


def test_what_one_does_the_other_tells(pair):
    lake, (one, two) = pair
    assert one.http.post("/tables/sales.orders/mirror/pause").status_code == 303
    assert two.http.get(T).json()["is_paused"] is True
    assert two.http.post("/tables/sales.orders/mirror/resume").status_code == 303
    assert one.http.get(T).json()["is_paused"] is False
    job = one.http.post(f"{T}/check").json()["id"]
    unknown = two.http.get(f"/api/v1/jobs/{job}")
    assert unknown.status_code == 404
    assert "each instance keeps only the newest" in unknown.json()["cause"]
    # Both repair the same table at once: they take turns.
    lost = lake.table("sales.orders").location + "/_delta_log/00000000000000000000.json"
    until(lambda: lake.table("sales.orders").mirror.status().mirrored_version == 0)
    lake.objects(lake.table("sales.orders").location).delete([lost.partition("orders/")[2]])
    jobs = [(item, item.http.post(f"{T}/repair").json()["id"]) for item in (one, two)]
    for item, number in jobs:
        until(lambda: item.http.get(f"/api/v1/jobs/{number}").json()["ended_at"], limit=90)  # noqa: B023
        assert item.http.get(f"/api/v1/jobs/{number}").json()["state"] == "done"
    assert lake.mirror.validate().ok


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL] if FULL else [signal.SIGTERM])
def test_one_goes_and_the_other_carries_on(pair, end):
    lake, (one, two) = pair
    table = lake.table("sales.orders")

    def commit(service, number: int) -> int:
        # Each is new to the table.
        body = {"actions": [{"txn": {"appId": "a", "version": number}}]}
        return service.http.post(f"{T}/commits", json=body).status_code

    assert [commit(one, number) for number in range(3)] == [201] * 3
    one.process.send_signal(end)
    one.process.wait(timeout=30)
    assert [commit(two, number) for number in range(3, 6)] == [201] * 3
    # One that was killed holds its lease for half a minute.
    until(lambda: table.mirror.status().mirrored_version == table.version, limit=90)
    assert two.http.get("/readyz").status_code == 200
    assert table.mirror.validate().ok
