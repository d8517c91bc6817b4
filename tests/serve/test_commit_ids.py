"""Commit ids over HTTP: each stands for one commit, whatever is asked at once or again."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from fastapi import Response

import deltasql
from deltasql.serve.api import commits
from deltasql.serve.jobs import Jobs
from deltasql.serve.problems import Refused
from deltasql.serve.service import Service
from deltasql.serve.tokens import LOCAL
from deltasql.serve.unity.vending import Vending
from tests.serve.conftest import ORDERS, orders
from tests.serve.test_api import T, _upload


def test_a_commit_id_that_stands_for_another_change_of_the_table(service):
    def metadata(*names: str, **properties: str) -> dict[str, object]:
        fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in names]
        schema = json.dumps({"type": "struct", "fields": fields})
        told = {"id": "11111111-1111-4111-8111-111111111111", "schemaString": schema,
                "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                "configuration": properties}  # fmt: skip
        return {"actions": [{"metaData": told}], "commit_id": "new-columns"}

    def domain(text: str) -> dict[str, object]:
        told = {"domain": "mine", "configuration": text, "removed": False}
        return {"actions": [{"domainMetadata": told}], "commit_id": "new-domain"}

    with service.lake() as lake:
        lake.create_table("sales.changing", pa.schema([("id", pa.int64())]))
    url = "/api/v1/tables/sales.changing/commits"
    for right, wrong in (
        (metadata("id", "a", mine="1"), metadata("id", "a", "b", mine="1")),
        (metadata("id", "a", mine="1"), metadata("id", "a", mine="2")),
        (domain("1"), domain("2")),
    ):
        first = service.http.post(url, json=right)
        assert first.status_code in {200, 201}, first.text
        assert service.http.post(url, json=wrong).status_code == 409
        again = service.http.post(url, json=right)
        assert (again.status_code, again.json()["version"]) == (200, first.json()["version"])


def test_a_transaction_that_is_there_already_is_not_new(service):
    """Its files are not in the table: nobody is told that they have become a version."""
    _, first = _upload(service, orders(820, 5), app_id="nightly", app_version=7, commit_id="n1")
    _, second = _upload(service, orders(830, 5), app_id="nightly", app_version=7, commit_id="n2")
    done = service.http.post(f"{T}/commits", json=first)
    assert (done.status_code, done.json()["is_new"]) == (201, True)
    again = service.http.post(f"{T}/commits", json=second)
    assert (again.status_code, again.json()["is_new"]) == (200, False)
    assert again.json()["version"] == done.json()["version"]
    assert service.http.get(f"{T}/commits/n2").status_code == 404


def test_another_commit_with_the_same_id_at_the_same_time(tmp_path, monkeypatch):
    """The one that comes second is not told that its files are the version of the first."""
    settings = {"mirror.mode": "off"}
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    with deltasql.connect(url, location=str(tmp_path / "lake"), settings=settings) as lake:
        lake.create_table("sales.orders", ORDERS)
        jobs = Jobs()
        service = Service(lake, jobs, Vending({}, "off"))

        def send(app: str) -> commits.CommitAnswer:
            txn = {"txn": {"appId": app, "version": 1}}
            body = json.dumps({"actions": [txn], "commit_id": "one-id"}).encode()
            return commits.commit(service, LOCAL, "sales.orders", body, Response())

        assert send("first").is_new
        # The second asks before the first is there, and commits after it.
        find, asked = lake.store.find_commit, []
        monkeypatch.setattr(
            lake.store,
            "find_commit",
            lambda *found: None if asked.append(1) or len(asked) == 1 else find(*found),
        )
        with pytest.raises(Refused, match="stands for another commit"):
            send("second")
        jobs.close()
