"""Who sees one schema beside much else: all of theirs is found, whatever the others do."""

from __future__ import annotations

import pyarrow as pa
import pytest

import deltasql
from deltasql.serve.api.lake import audit_page, place_of
from deltasql.serve.jobs import Jobs
from deltasql.serve.service import Service
from deltasql.serve.tokens import Kind, Visitor
from deltasql.serve.unity.vending import Vending
from deltasql.serve.watching import behind
from tests.sizes import FULL

ROWS = pa.table({"id": [1]})
# More than were once looked at.
UNMIRRORED = 501 if FULL else 9
MINE = Visitor("mine", Kind.READ, frozenset({"hr"}))


@pytest.fixture
def service(tmp_path):
    """A lake of two schemas that nobody mirrors."""
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    settings = {"mirror.mode": "async"}
    with deltasql.connect(url, location=str(tmp_path / "lake"), settings=settings) as lake:
        lake.create_table("hr.people", ROWS.schema).append(ROWS)
        lake.create_table("sales.orders", ROWS.schema)
        jobs = Jobs()
        yield Service(lake, jobs, Vending({}, "off"))
        jobs.close()


def test_the_audit_finds_what_is_older_than_much_of_others(service):
    for _ in range(60):
        service.lake.table("sales.orders").append(ROWS)
    found = audit_page(service, MINE, most=2)
    assert [name for name, _ in found] == ["hr.people"] * 2


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_the_audit_leaves_nothing_out_between_its_pages(service, most):
    """A transaction's versions have times that are often the same."""
    for _ in range(4):
        with service.lake.transaction() as tx:
            tx.table("hr.people").append(ROWS)
            tx.table("sales.orders").append(ROWS)
    everybody = Visitor("all", Kind.READ)
    whole = audit_page(service, everybody, most=1000)
    seen, after = [], None
    while page := audit_page(service, everybody, after=after, most=most):
        seen += page
        after = place_of(page[-1][1])
    assert seen == whole
    assert len(whole) == 11


def test_the_oldest_wait_hides_nobody_elses(service):
    """Tables that are not mirrored wait for ever, and are not late."""
    unmirrored = {"mirror.mode": "off"}
    for number in range(UNMIRRORED):
        service.lake.create_table(f"hr.a{number}", ROWS.schema, properties=unmirrored).append(ROWS)
    service.lake.create_table("hr.late", ROWS.schema).append(ROWS)
    assert [item.name for item in behind(service, MINE)] == ["hr.people", "hr.late"]
    assert [item.name for item in behind(service, MINE, name="hr.late")] == ["hr.late"]
    assert behind(service, MINE, name="hr.a1") == []
    assert behind(service, MINE, name="sales.orders") == []


def test_jobs_of_others_push_out_none_of_mine(service):
    jobs = service.jobs
    wanted = jobs.begin("check", "hr.people", "me", lambda _: {"ok": True})
    for number in range(40):
        for kind in ("check", "validate"):
            job = jobs.begin(kind, f"sales.t{number}", "you", lambda _: {"ok": True})
            while not job.is_over:
                pass
    assert jobs.newest(MINE.sees) == [wanted]
    assert len(jobs.newest()) == 50
