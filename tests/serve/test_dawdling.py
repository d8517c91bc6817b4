"""Clients that dawdle, on purpose or not: none keeps a place, or what others pay for."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest
import uvicorn

from deltasql.serve import limits
from deltasql.serve.patience import PatientProtocol
from deltasql.serve.problems import Refused
from tests.faults.waiting import until

LARGE = b"x" * 32_000_000
POST = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}


class Hasty(PatientProtocol):
    patience = 0.3
    reading_patience = 0.5


@contextmanager
def served(app, **more) -> Iterator[tuple[uvicorn.Server, tuple[str, int]]]:
    """A server of an application, with little patience."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            app, http=Hasty, log_config=None, lifespan="off", timeout_keep_alive=1, **more
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield server, listening.getsockname()
        server.should_exit = True
        thread.join()


def answering(body: bytes, *, after: float = 0.0):
    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await asyncio.sleep(after)
        length = str(len(body)).encode()
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-length", length)]})  # fmt: skip
        await send({"type": "http.response.body", "body": body})

    return app


def test_headers_that_never_end_are_not_waited_for():
    """A byte now and then keeps no place; who asks, and then waits for the answer, keeps theirs."""
    with served(answering(b"ok", after=0.6)) as (_, place):
        with socket.create_connection(place, timeout=20) as slow:
            with suppress(OSError):
                for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"y" * 400:
                    slow.sendall(bytes([byte]))
                    time.sleep(0.05)
            with suppress(ConnectionError):
                assert slow.recv(10) == b""
        with socket.create_connection(place, timeout=20) as silent:
            assert silent.recv(10) == b""
        with httpx.Client(base_url=f"http://127.0.0.1:{place[1]}", timeout=20) as http:
            assert [http.get("/").text for _ in range(2)] == ["ok", "ok"]


def test_the_rest_of_a_body_that_is_answered_is_not_waited_for():
    """Its answer is there already, a token refused; a byte now and then would keep the place."""
    with (
        served(answering(b"no")) as (server, place),
        socket.create_connection(place, timeout=20) as slow,
    ):
        slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert b"200" in slow.recv(1000)
        with suppress(OSError):
            for _ in range(60):
                slow.sendall(b"y")
                time.sleep(0.05)
        until(lambda: not server.server_state.connections, limit=10)


def test_an_answer_that_nobody_reads_is_thrown_away():
    with (
        served(answering(LARGE)) as (server, place),
        socket.create_connection(place, timeout=20) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: server.server_state.connections, limit=10)
        # It would be there for as long as the client is.
        until(lambda: not server.server_state.connections, limit=10)


def test_an_answer_that_is_read_slowly_is_sent_to_its_end():
    """Longer than the patience, but always some of it."""
    with (
        served(answering(LARGE)) as (_, place),
        socket.create_connection(place, timeout=20) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read, started = 0, time.monotonic()
        while read < len(LARGE):
            piece = slow.recv(1_000_000)
            assert piece, read
            read += len(piece)
            time.sleep(0.05)
        assert time.monotonic() - started > 2 * Hasty.reading_patience


@pytest.mark.parametrize("pause", [5.0, 0.02])
def test_a_slow_body_is_not_waited_for(monkeypatch, pause):
    """Neither one that stops, nor one that comes byte by byte, for years."""
    monkeypatch.setattr(limits, "_PATIENCE", 0.2)
    seen: list[str] = []

    async def app(scope, receive, send):
        try:
            while (await receive())["more_body"]:
                pass
        except Refused as refused:
            seen.append(refused.problem)

    async def receive():
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": b"y", "more_body": True}

    async def run():
        scope = dict(POST)
        await asyncio.wait_for(limits.Limits(app)(scope, receive, receive), 10)

    asyncio.run(run())
    assert seen == ["the request did not arrive in time"]


def test_a_large_body_may_take_its_time(monkeypatch):
    monkeypatch.setattr(limits, "_PATIENCE", 0.2)
    pieces = iter([b"y" * 32_768] * 10)
    seen = []

    async def app(scope, receive, send):
        is_whole = False
        while not is_whole:
            message = await receive()
            seen.append(len(message["body"]))
            is_whole = not message["more_body"]

    async def receive():
        await asyncio.sleep(0.1)
        body = next(pieces, b"")
        return {"type": "http.request", "body": body, "more_body": bool(body)}

    async def run():
        scope = dict(POST)
        await asyncio.wait_for(limits.Limits(app)(scope, receive, receive), 20)

    asyncio.run(run())
    assert sum(seen) == 10 * 32_768


def test_who_dawdles_at_the_end_is_told(caplog):
    """A body that never comes does not end in an error of ours."""

    async def app(scope, receive, send):
        await receive()

    ending = served(limits.Limits(app), timeout_graceful_shutdown=1)
    with ending as (server, place), socket.create_connection(place, timeout=20) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        until(lambda: server.server_state.tasks)
        server.should_exit = True
        assert slow.recv(1000).startswith(b"HTTP/1.1 503 ")
    assert not [record for record in caplog.records if record.exc_info]
