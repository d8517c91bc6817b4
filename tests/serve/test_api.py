"""The JSON API against a real lake: what it answers, and what it commits."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.serve.conftest import HOSTILE, orders

T = "/api/v1/tables/sales.orders"


def test_health_readiness_and_openapi(service):
    assert service.http.get("/healthz").json() == {"status": "ok"}
    ready = service.http.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {"ready": True, "checks": {"database": True, "worker": True}}
    told = service.http.get("/api/openapi.json").json()
    assert told["openapi"].startswith("3.")
    assert "/api/v1/tables/{name}/commits" in told["paths"]
    assert not [path for path in told["paths"] if path.startswith("/tables")]


def test_tables_are_listed_page_by_page(service):
    seen, after = [], ""
    while True:
        page = service.http.get("/api/v1/tables", params={"limit": 2, "after": after}).json()
        seen += [item["name"] for item in page["tables"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert seen == sorted(["hr.people", HOSTILE, "sales.customers", "sales.orders"])
    found = service.http.get("/api/v1/tables", params={"search": "ORD"}).json()["tables"]
    assert [item["name"] for item in found] == ["sales.orders"]
    assert service.http.get("/api/v1/tables", params={"search": "%"}).json()["tables"] == []


def test_snapshots_by_number_and_time(service):
    old = service.http.get("/api/v1/tables/sales.customers/snapshot", params={"version": 0}).json()
    new = service.http.get("/api/v1/tables/sales.customers/snapshot").json()
    assert [column["name"] for column in old["columns"]] == ["id"]
    assert [column["name"] for column in new["columns"]] == ["id", "note"]
    at = service.http.get(
        "/api/v1/tables/sales.customers/snapshot", params={"timestamp": old["timestamp"]}
    ).json()
    assert at["version"] == 0
    both = service.http.get(
        "/api/v1/tables/sales.customers/snapshot",
        params={"timestamp": old["timestamp"], "version": 1},
    )
    assert both.status_code == 422
    assert both.headers["content-type"] == "application/problem+json"
    assert both.json()["problem"] == "version and timestamp were both given"


def test_files_are_paged_with_and_without_a_predicate(service):
    with service.lake() as lake:
        table = lake.table("sales.orders")
        version = table.version
        everything = set(table.snapshot(version).files().column("path").to_pylist())
        matching = set(table.snapshot(version).files("id < 25").column("path").to_pylist())
    assert 0 < len(matching) < len(everything)
    for where, expected in ((None, everything), ("id < 25", matching)):
        seen: list[str] = []
        after = ""
        while after is not None:
            params = {"limit": 4, "after": after, "version": version}
            params |= {"where": where} if where else {}
            page = service.http.get(f"{T}/files", params=params).json()
            assert len(page["files"]) <= 4
            seen += [item["path"] for item in page["files"]]
            after = page["next"]
        assert len(seen) == len(set(seen))
        assert set(seen) == expected


def test_files_of_an_old_version_and_as_arrow(service):
    arrow = service.http.get(
        f"{T}/files",
        params={"version": 2, "limit": 50_000},
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )
    assert arrow.headers["x-deltasql-version"] == "2"
    found = pa.ipc.open_stream(arrow.content).read_all()
    with service.lake() as lake:
        expected = lake.table("sales.orders").snapshot(2).files()
    assert sorted(found.column("path").to_pylist()) == sorted(expected.column("path").to_pylist())
    first = service.http.get(
        f"{T}/files",
        params={"version": 2, "limit": 1},
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )
    one = pa.ipc.open_stream(first.content).read_all()
    assert one.schema.metadata[b"next"].decode() == one.column("path")[0].as_py()
    assert not found.schema.metadata
    page = service.http.get(f"{T}/files", params={"limit": 5000}).json()
    assert len(page["files"]) <= 1000
    bad = service.http.get(f"{T}/files", params={"where": "id <"})
    assert bad.status_code == 422
    assert bad.json()["title"] == "ValidationError"


def test_history_audit_and_transactions_agree(service):
    page = service.http.get(f"{T}/history", params={"limit": 3}).json()
    assert len(page["versions"]) == 3
    more = service.http.get(f"{T}/history", params={"before": page["next"]}).json()
    assert more["versions"][0]["version"]["version"] == page["next"] - 1
    assert more["versions"][-1]["version"]["version"] == 0
    assert all(item["has_commit_file"] for item in more["versions"])
    audit = service.http.get("/api/v1/audit", params={"limit": 1000}).json()
    moved = [item for item in audit["entries"] if item["version"]["transaction_id"]]
    assert {item["table"] for item in moved} == {"sales.orders", "sales.customers"}
    (transaction_id,) = {item["version"]["transaction_id"] for item in moved}
    found = service.http.get(f"/api/v1/transactions/{transaction_id}").json()
    assert [item["table"] for item in found] == ["sales.customers", "sales.orders"]
    assert service.http.get("/api/v1/transactions/none").status_code == 404
    early = service.http.get("/api/v1/audit", params={"to": "2000-01-01T00:00:00Z"}).json()
    assert early["entries"] == []


def test_jobs_find_and_mend_a_lost_commit_file(service):
    lost = service.folder / "lake/sales/orders/_delta_log/00000000000000000003.json"
    content = lost.read_bytes()
    lost.unlink()
    found = _done(service, service.http.post(f"{T}/validate").json())
    assert found["state"] == "done"
    assert found["result"]["missing_versions"] == [3]
    assert found["done"] > 0
    mended = _done(service, service.http.post(f"{T}/repair").json())
    assert mended["result"]["restored"] == [3]
    assert lost.read_bytes() == content
    checked = _done(service, service.http.post(f"{T}/check").json())
    assert checked["result"]["ok"]
    assert len(service.http.get("/api/v1/jobs").json()) >= 3


def test_a_commit_happens_once(service):
    path, body = _upload(service, orders(500, 5), commit_id="job-17.part-1")
    first = service.http.post(f"{T}/commits", json=body)
    assert first.status_code == 201, first.text
    again = service.http.post(f"{T}/commits", json=body)
    assert again.status_code == 200
    assert again.json() == {**first.json(), "is_new": False}
    assert service.http.get(f"{T}/commits/job-17.part-1").json() == again.json()
    assert service.http.get(f"{T}/commits/unknown").status_code == 404
    with service.lake() as lake:
        table = lake.table("sales.orders")
        assert table.version == first.json()["version"]
        assert table.scan("id >= 500 AND id < 505").to_arrow().num_rows == 5
        assert table.mirror.validate().ok
    assert path.exists()


def test_a_commit_id_that_stands_for_other_files(service):
    """Nobody is told that their files are committed when others are."""
    _, first = _upload(service, orders(800, 5), commit_id="used-twice")
    _, second = _upload(service, orders(810, 5), commit_id="used-twice")
    done = service.http.post(f"{T}/commits", json=first)
    assert done.status_code == 201
    txn = {"actions": [{"txn": {"appId": "a", "version": 1}}], "commit_id": "used-twice"}
    both = {**first, "actions": [*first["actions"], *second["actions"]]}
    numbered = {**first, "app_id": "a", "app_version": 1}
    for body in (second, txn, both, numbered):
        refused = service.http.post(f"{T}/commits", json=body)
        assert refused.status_code == 409, refused.text
        assert "another commit" in refused.json()["problem"]
    # The same one, told in another order of its keys, and with other facts about its file.
    action = dict(reversed(first["actions"][0]["add"].items()))
    same = {**first, "actions": [{"add": {**action, "modificationTime": 1}}], "operation": "MERGE"}
    again = service.http.post(f"{T}/commits", json=same)
    assert (again.status_code, again.json()["version"]) == (200, done.json()["version"])
    named = {"commit_id": "named", "app_id": "loader", "app_version": 3, "actions": txn["actions"]}
    versions = {service.http.post(f"{T}/commits", json=named).json()["version"] for _ in range(2)}
    assert len(versions) == 1


def test_the_same_commit_at_once_is_one_version(service):
    _, body = _upload(service, orders(600, 5), commit_id="at-once")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: service.http.post(f"{T}/commits", json=body), range(8)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len({answer.json()["version"] for answer in answers}) == 1
    with service.lake() as lake:
        found = lake.table("sales.orders").scan("id >= 600 AND id < 605").to_arrow()
        assert found.num_rows == 5


def test_commits_that_are_refused(service):
    with service.lake() as lake:
        before = lake.table("sales.orders").version
    _, body = _upload(service, orders(700, 5))
    add = body["actions"][0]["add"]

    def refused(**changed: object) -> str:
        action = {"add": {**add, **changed}}
        answer = service.http.post(f"{T}/commits", json={"actions": [action]})
        assert answer.status_code == 422, answer.text
        return answer.json()["cause"]

    assert "is not there" in refused(path="day=2026-11-01/none.parquet")
    assert "bytes" in refused(size=1)
    people = service.folder / "lake/hr/people/x.parquet"
    assert "absolute" in refused(path=people.as_uri())
    for path in ("../../hr/people/x.parquet", "%2e%2e/x.parquet", "a/", "", "/x.parquet"):
        assert "log" not in refused(path=path)
    pinned = service.http.post(f"{T}/commits", json={**body, "expected_version": 1})
    assert pinned.status_code == 409
    assert pinned.json()["title"] == "VersionConflictError"
    for bad in ({}, {"actions": []}, {"actions": [{"add": 7}]}, {**body, "commit_id": "a b"}):
        assert service.http.post(f"{T}/commits", json=bad).status_code == 422
    with service.lake() as lake:
        assert lake.table("sales.orders").version == before


def test_what_is_removed_must_be_what_was_read(service):
    """Two files become one, while somebody else changes rows of the first."""
    with service.lake() as lake:
        table = lake.table("sales.orders")
        table.append(orders(900, 1))
        table.append(orders(901, 1))
        read = table.version
        old = [
            item["path"] for item in table.snapshot().files("id >= 900 AND id < 902").to_pylist()
        ]
        table.update("id = 900", {"amount": "7"})
    _, body = _upload(service, orders(900, 2))
    gone = [{"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}} for path in old]
    body["actions"] += gone

    def refused(**changed: object) -> dict[str, object]:
        answer = service.http.post(f"{T}/commits", json={**body, **changed})
        assert answer.status_code in (409, 422), answer.text
        return answer.json()

    assert "which version it rests on" in refused()["problem"]
    assert refused(read_version=read)["title"] == "ConcurrentDeleteDeleteError"
    told = refused(read_version=read + 1)
    assert f"is not in sales.orders at version {read + 1}" in told["problem"]
    assert "is not in" in refused(expected_version=read + 2)["problem"]
    typo = {"remove": {**gone[0]["remove"], "path": "day=2026-11-01/typo.parquet"}}
    assert "typo" in refused(read_version=read + 1, actions=[typo])["problem"]
    with service.lake() as lake:
        table = lake.table("sales.orders")
        assert table.version == read + 1
        live = [item["path"] for item in table.snapshot().files("id = 900").to_pylist()]
    right = [{"remove": {**gone[0]["remove"], "path": path}} for path in live]
    both = {"actions": right, "read_version": read + 1, "commit_id": "removes"}
    assert service.http.post(f"{T}/commits", json=both).status_code == 201
    # Once it is done it stays done, although its files are no longer there.
    assert service.http.post(f"{T}/commits", json=both).status_code == 200


def test_sessions_and_mirror(service):
    with service.lake() as lake:
        lake.table("hr.people").append(pa.table({"id": [1]}))
        found = service.http.get("/api/v1/sessions").json()
        assert "ana" in {item["committer"] for item in found}
    told = service.http.get("/api/v1/mirror").json()
    assert told["tables"] == 4
    assert told["behind"] == []
    status = service.http.get("/api/v1/tables/hr.people/mirror").json()
    assert status["mirrored_version"] == status["version"]
    odd = service.http.get(f"/api/v1/tables/{quote(HOSTILE, safe='')}")
    assert odd.json()["name"] == HOSTILE


def _upload(service, rows, **more):
    """Put a data file into the table's folder, and say the commit that adds it."""
    day = "2026-11-01"
    folder = service.folder / "lake/sales/orders" / f"day={day}"
    folder.mkdir(exist_ok=True)
    path = folder / f"part-{time.monotonic_ns()}.parquet"
    pq.write_table(rows.drop_columns("day"), path)
    add = {
        "path": f"day={day}/{path.name}",
        "partitionValues": {"day": day},
        "size": path.stat().st_size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
    }
    return path, {"actions": [{"add": add}], **more}


def _done(service, job):
    deadline = time.monotonic() + 20
    while job["state"] in ("waiting", "running") and time.monotonic() < deadline:
        time.sleep(0.05)
        job = service.http.get(f"/api/v1/jobs/{job['id']}").json()
    assert job["state"] == "done", job
    return job
