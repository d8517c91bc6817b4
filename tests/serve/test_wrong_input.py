"""Wrong and hostile values in every parameter of every route: refused with 4xx, never a failure.

The routes are found by introspection, so that a new one can't be forgotten.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute

from deltasql.serve.app import API, PAGES

ROUTES = [route for router in (*API, *PAGES) for route in router.routes]
T = "/api/v1/tables/sales.orders"
CREDENTIALS = "/api/2.1/unity-catalog/temporary-table-credentials"
TEXTS: list[str | bytes] = [
    "", "\0", "\t", "a" * 9000, b"\xed\xa0\x80", b"\xff\xfe", "-1", "1e400", "9" * 400, "[]",
    "null", "NaN", "true", "%", "\\", "'", '"', "`", "\u202e", "☃" * 300, "../..", "//evil.example",
    "{{1}}", "9223372036854775807", "9223372036854775808", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999-23:59", "0000-01-01", "2026-11-01T00:00:00+99:00",
]  # fmt: skip
# What a parameter may be, so that the others are looked at.
PLAIN = {
    "name": "sales.orders", "full_name": "lake.sales.orders", "transaction_id": "none",
    "commit_id": "none", "job_id": "0" * 32, "kind": "check", "action": "resume",
    "catalog_name": "lake", "schema_name": "sales",
}  # fmt: skip
VALUES = [
    None, 1, -1, 1.5, True, "x", "", [], {}, [[]], [{}], {"a": 1}, {"a": None}, {"day": 1}, "a\0b",
    "\ud800", {"\ud800": "x"}, 2**63, 2**70, float("nan"), float("inf"), "a" * 100_000,
]  # fmt: skip
ADD = {"path": "x.parquet", "size": 1, "partitionValues": {"day": "a"}, "modificationTime": 1,
       "dataChange": True, "stats": "{}", "tags": {}, "deletionVector": None, "baseRowId": None,
       "defaultRowCommitVersion": None, "clusteringProvider": None}  # fmt: skip
VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1,
          "cardinality": 1}  # fmt: skip
KINDS = ["add", "remove", "metaData", "protocol", "txn", "domainMetadata", "cdc", "commitInfo",
         "checkpointMetadata", "sidecar", "unknown"]  # fmt: skip


def _requests(route: APIRoute) -> Iterator[tuple[str, str, str]]:
    """Method, address and parameter of requests, one parameter wrong in each."""
    taken = {item.alias for item in route.dependant.path_params}
    asked = {item.alias: item for item in route.dependant.query_params}
    needed = {name: PLAIN[name] for name, item in asked.items() if item.field_info.is_required()}
    for wrong, text in itertools.product([*taken, *asked, "unknown"], TEXTS):
        path = re.sub(
            r"\{(\w+)\}", lambda found: _segment(text if found[1] == wrong else PLAIN[found[1]]),  # noqa: B023
            route.path,
        )  # fmt: skip
        query = {name: _segment(value) for name, value in needed.items()}
        if wrong not in taken:
            query[wrong] = _segment(text)
        told = "&".join(f"{name}={value}" for name, value in query.items())
        for method in route.methods:
            yield method, f"{path}?{told}", wrong


def _segment(text: str | bytes) -> str:
    return quote(text, safe="")


def test_every_route_is_walked():
    assert len(ROUTES) > 30
    names = {item.alias for route in ROUTES for item in route.dependant.path_params}
    assert names <= set(PLAIN), "say what the new parameter may be"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_parameters(shared_service, route):
    for method, address, wrong in _requests(route):
        answer = shared_service.http.request(method, address)
        told = (method, address[:200], wrong, answer.text[:300])
        # 501: credentials that can't be vended; 429: jobs that this walk began.
        assert answer.status_code < 500, told
        assert answer.headers["x-content-type-options"] == "nosniff", told
        assert "evil.example" not in answer.headers.get("location", "").partition("?")[0], told


def _bodies() -> Iterator[tuple[str, object]]:
    good = {"actions": [{"txn": {"appId": "a", "version": 1}}]}
    keys = [*good, "commit_id", "operation", "operation_params", "expected_version", "unknown",
            "read_version", "reads", "app_id", "app_version"]  # fmt: skip
    for value in VALUES:
        yield "body", value
        yield from ((key, {**good, key: value}) for key in keys)
        yield from ((kind, {"actions": [{kind: value}]}) for kind in KINDS)
        for key in (*ADD, "unknown"):
            yield f"add.{key}", {"actions": [{"add": {**ADD, key: value}}]}
            yield f"cdc.{key}", {"actions": [{"cdc": {**ADD, key: value}}]}
        for key in VECTOR:
            vector = {**VECTOR, key: value}
            yield f"vector.{key}", {"actions": [{"add": {**ADD, "deletionVector": vector}}]}


def test_bodies_of_commits(shared_service):
    before = shared_service.http.get(T).json()["version"]
    for key, body in _bodies():
        answer = _post(shared_service.http, f"{T}/commits", json.dumps(body))
        assert answer.status_code < 500, (key, repr(body)[:200], answer.text[:300])
    after = shared_service.http.get(f"{T}/snapshot").json()["version"]
    # What was committed is a txn, never a file that is not there.
    assert after > before
    assert "x.parquet" not in shared_service.http.get(f"{T}/files?limit=1000").text


def test_bodies_of_everything_else(shared_service):
    for value, key in itertools.product(VALUES, ("table_id", "operation", "unknown")):
        answer = _post(shared_service.http, CREDENTIALS, json.dumps({"table_id": "x", key: value}))
        assert answer.status_code in (404, 413, 422), (key, repr(value)[:100], answer.text[:300])
    kinds = ["application/json", "text/plain", "application/x-www-form-urlencoded", "é",
             "multipart/form-data; boundary=x", "application/json; charset=utf-16"]  # fmt: skip
    texts = [b"", b"\0", b"\xff\xfe", b"{", b"[" * 5000, b'{"actions": 1e999}', b"token=%00%ff"]
    for kind, text in itertools.product(kinds, texts):
        for path in (f"{T}/commits", CREDENTIALS, "/login", "/logout", f"{T}/check"):
            answer = _post(shared_service.http, path, text, kind)
            assert answer.status_code < 500, (path, kind, text[:20], answer.text[:300])


def _post(http: httpx.Client, path: str, content: str | bytes, kind: str = "application/json"):
    return http.post(path, content=content, headers={"Content-Type": kind.encode("latin-1")})


HOSTS = ["[", "[::1", "a]", "", "é", "[v1.x]", "::1", "user@localhost", "localhost#",
         "localhost/..", "?localhost", "localhost@evil.example", "127.0.0.1:x",
         "127.0.0.1.evil.example", "evil.example", "evil.example:80",
         "localhost.evil.example"]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_hosts_that_are_not_this_machine(shared_service, host):
    assert _raw(shared_service, f"GET {T} HTTP/1.1", host) == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2:80", "[::1]:1"])
def test_hosts_that_are(shared_service, host):
    assert _raw(shared_service, f"GET {T} HTTP/1.1", host) == 200


@pytest.mark.parametrize(
    "origin",
    ["http://[", "http://a]", "null", "", "é", "file://", "localhost", "http://evil@localhost",
     "http://localhost@evil.example", "http://localhost.evil.example", "ftp://localhost"],
)  # fmt: skip
def test_origins_that_are_not_ours(shared_service, origin):
    for path in (f"{T}/check", "/tables/sales.orders/jobs/check", "/login", "/logout"):
        told = f"POST {path} HTTP/1.1\r\nContent-Length: 0\r\nOrigin: {origin}"
        assert _raw(shared_service, told, "localhost") == 403, path


@pytest.mark.parametrize("line", ["GET http://evil.example/ HTTP/1.1", "GET * HTTP/1.1",
                                  "OPTIONS * HTTP/1.1", "CONNECT evil.example:80 HTTP/1.1",
                                  "GET /static/../../tokens.py HTTP/1.1", "PRI * HTTP/2.0",
                                  "GET /static/..%2f..%2ftokens.py HTTP/1.1",
                                  "GET /static/%00 HTTP/1.1",
                                  "GET //evil.example HTTP/1.1"])  # fmt: skip
def test_request_lines(shared_service, line):
    assert _raw(shared_service, line, "localhost") in (400, 404, 405)


@pytest.mark.parametrize("length", ["-1", "+5", "5_0", "²", "1e3", "9" * 30, "5, 6"])
def test_lengths(shared_service, length):
    told = f"POST {T}/commits HTTP/1.1\r\nContent-Length: {length}"
    assert _raw(shared_service, told, "localhost") in (400, 413)


def _raw(service, head: str, host: str) -> int:
    """The status of a request that no client would send."""
    url = httpx.URL(service.address)
    with socket.create_connection((url.host, url.port), timeout=20) as connection:
        text = f"{head}\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        connection.sendall(text.encode("latin-1"))
        return int(connection.makefile("rb").readline().split()[1])


def test_nothing_unexpected_was_logged(shared_service):
    log = (shared_service.folder / "service.log").read_text()
    assert "unexpectedly" not in log
    assert "Traceback" not in log
    with shared_service.lake() as lake:
        assert lake.check().ok


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/metrics", "/tables/sales.orders", "/api/v1/tables/sales.orders"]
)
def test_head_is_answered_as_get_without_the_body(shared_service, path):
    """What probes and caches send."""
    told = shared_service.http.head(path)
    got = shared_service.http.get(path)
    assert (told.status_code, told.content) == (200, b"")
    assert told.headers["content-type"] == got.headers["content-type"]
    assert int(told.headers["content-length"]) > 0
    # The connection is still in order.
    assert shared_service.http.head("/nothing").status_code == 404
    assert shared_service.http.head(f"{path}x/y/z").status_code == 404
    refused = shared_service.http.post(path)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_a_request_with_two_lengths_ends_the_connection(shared_service):
    """Behind a proxy that believes the other length, the rest would be somebody else's request."""
    place = shared_service.address.removeprefix("http://")
    host, _, port = place.partition(":")
    hidden = f"GET /metrics HTTP/1.1\r\nHost: {place}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(
            f"POST /api/v1/tables/sales.orders/validate HTTP/1.1\r\nHost: {place}\r\n"
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            f"{hidden}".encode()
        )
        told = b""
        while more := connection.recv(65536):
            told += more
    assert told.startswith(b"HTTP/1.1 400 ")
    assert told.count(b"HTTP/1.1 ") == 1
    assert b"says its length twice" in told
