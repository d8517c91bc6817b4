"""Hostile input: nothing executes, nothing leaks, and the status says what was wrong."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from urllib.parse import quote

import httpx
import pytest

from deltasql.serve import limits
from tests.faults.waiting import until
from tests.serve.conftest import HOSTILE

T = "/api/v1/tables/sales.orders"
TEXTS = [
    "'; DROP TABLE dl_tables; --", "<script>alert(1)</script>", "{{ 7*7 }}", "../../etc/passwd",
    "%2e%2e%2f", "\x00", "a" * 4000, "sales.orders\n", "..",
]  # fmt: skip
PAGES = ["/", f"/tables/{quote(HOSTILE, safe='')}", "/audit"]
PAGES += [f"{PAGES[1]}/{part}" for part in ("files", "partitions", "schema", "rows")]


def is_harmless(answer: httpx.Response) -> bool:
    """Whether no browser would run what was sent: JSON is never taken for a page."""
    is_page = answer.headers.get("content-type", "").startswith("text/html")
    assert answer.headers["x-content-type-options"] == "nosniff"
    return not (is_page and "<script>alert" in answer.text)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:20])
def test_names_and_parameters(shared_service, text):
    name = quote(text, safe="")
    for path in (f"/api/v1/tables/{name}", f"/api/v1/tables/{name}/files", f"/tables/{name}",
                 f"/api/v1/transactions/{name}", f"/api/v1/jobs/{name}", f"/static/{name}",
                 f"/api/2.1/unity-catalog/tables/lake.{name}", f"{T}/commits/{name}"):  # fmt: skip
        answer = shared_service.http.get(path)
        assert answer.status_code in (303, 404, 405, 422, 200), (path, answer.text)
        assert answer.status_code != 200 or text in (".", "..", "%2e%2e%2f")
        assert "Traceback" not in answer.text
        assert "root:" not in answer.text
        assert is_harmless(answer)
    for path, key in (("/api/v1/tables", "search"), (f"{T}/files", "where"),
                      (f"{T}/files", "after"), ("/", "search"), ("/audit", "from"),
                      ("/tables/sales.orders/files", "where"),
                      ("/login", "next"), (f"{T}/snapshot", "timestamp"),
                      (f"{T}/snapshot", "version")):  # fmt: skip
        answer = shared_service.http.get(path, params={key: text})
        assert answer.status_code in (200, 303, 404, 422), (path, key, answer.text)
        assert is_harmless(answer)
    assert shared_service.http.get(T).status_code == 200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page[-8:])
def test_names_and_values_are_text_on_every_page(shared_service, page):
    answer = shared_service.http.get(page)
    assert answer.status_code == 200
    assert "<img src=x" not in answer.text
    assert "<script>alert" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert " style=" not in answer.text
    assert "<script>" not in answer.text


def test_wrong_methods_and_unknown_paths(shared_service):
    for method, path in (("PUT", T), ("DELETE", T), ("POST", "/"), ("PATCH", "/api/v1/audit"),
                         ("GET", f"{T}/validate"), ("TRACE", "/")):  # fmt: skip
        answer = shared_service.http.request(method, path)
        assert answer.status_code == 405, (method, path)
    answer = shared_service.http.get("/api/v1/none")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("number", ["-1", "9223372036854775808", "1e9", "NaN", "", "0x10"])
def test_numbers_out_of_range(shared_service, number):
    for path, key in ((f"{T}/snapshot", "version"), (f"{T}/history", "limit"),
                      ("/tables/sales.orders", "before"), ("/audit", "after")):  # fmt: skip
        answer = shared_service.http.get(path, params={key: number})
        assert answer.status_code in (404, 422), (path, key)


def test_other_sites_and_other_names_for_this_machine(shared_service):
    assert shared_service.http.get("/", headers={"Host": "evil.example"}).status_code == 421
    assert shared_service.http.get(T, headers={"Host": "evil.example:80"}).status_code == 421
    assert shared_service.http.get(T, headers={"Host": "localhost"}).status_code == 200
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert shared_service.http.post(f"{T}/check", headers=headers).status_code == 403


def test_requests_that_are_too_large(shared_service):
    much = b"x" * (limits.LARGEST_BODY + 1)
    assert shared_service.http.post(f"{T}/commits", content=much).status_code == 413
    # Its size is not told in advance.
    pieces = (b"y" * 1_000_000 for _ in range(18))
    # The service may hang up while the rest is still being sent.
    with suppress(httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
        assert shared_service.http.post(f"{T}/commits", content=pieces).status_code == 413
    assert shared_service.http.get("/", params={"search": "x" * 50_000}).status_code == 414
    deep = b'{"actions": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    answer = shared_service.http.post(
        f"{T}/commits", content=deep, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 422)
    assert shared_service.http.get("/healthz").status_code == 200


def test_garbage_on_the_wire_and_idle_connections(shared_service):
    url = httpx.URL(shared_service.address)
    idle = [socket.create_connection((url.host, url.port)) for _ in range(50)]
    for connection, line in zip(
        idle, (b"\x00\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"), strict=False
    ):
        connection.sendall(line)
    started = time.monotonic()
    assert shared_service.http.get("/api/v1/tables").status_code == 200
    assert time.monotonic() - started < 10
    for connection in idle:
        connection.close()


def test_clients_that_hang_up_are_no_failures_of_ours(shared_service):
    """In the middle of a body, of nonsense, of a wish for another protocol, and of an answer."""
    url = httpx.URL(shared_service.address)
    post = f"POST {T}/commits HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    credentials = post.replace(T, "/api/2.1/unity-catalog/temporary-table-credentials")
    for sent in (
        f"{post}Content-Length: 1000\r\n\r\n{{",
        f"{post}Transfer-Encoding: chunked\r\n\r\n5\r\n{{",
        f"{post}Transfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        f"{credentials.replace('/commits', '')}Content-Length: 1000\r\n\r\n{{",
        "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ntoken",
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        with socket.create_connection((url.host, url.port), timeout=20) as connection:
            connection.sendall(sent.encode())
    # By the next answer they have been heard.
    log = shared_service.folder / "service.log"
    until(lambda: "Invalid HTTP request" in log.read_text())
    assert shared_service.http.get(T).status_code == 200
    told = log.read_text()
    assert "ClientDisconnect" not in told
    assert "WebSocket" not in told
    assert not any(line.startswith("Invalid") for line in told.splitlines()), "without a time"


def test_nothing_unexpected_was_logged(shared_service):
    log = (shared_service.folder / "service.log").read_text()
    assert "unexpectedly" not in log
    assert "Traceback" not in log
