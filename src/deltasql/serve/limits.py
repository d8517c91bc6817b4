"""Limits on the cost of a request, by its size and the time to send it; and safe headers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from deltasql.serve.problems import Refused, answer

LARGEST_BODY: Final = 16 * 1024 * 1024
# How long a client may take for its body, beside a second for each so many bytes of it.
_PATIENCE: Final = 20.0
_SLOWEST: Final = 16_384
# Below the 64 KiB that the server accepts for a request line and its headers.
_LONGEST_QUERY: Final = 49_152
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

# The dashboard's own; programs that commit must not make each page anew.
_BUTTONS: Final = ("/tables/", "/jobs/")
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FAILED: Final = 400
_ENDING: Final = Refused(503, "the service is ending", remedy="send the request again")
# A proxy in front may have believed the other: what follows would be a request that it never saw.
_TWO_LENGTHS: Final = Refused(
    400,
    "the request says its length twice",
    cause="it has both Content-Length and Transfer-Encoding",
    remedy="send one of them",
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Limits:
    """Refuses what is too long or too slow, before and while it is read."""

    def __init__(self, app: Application, largest_body: int = LARGEST_BODY) -> None:
        self._app = app
        self._largest = largest_body

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            told = answer(refused)
            if refused is _TWO_LENGTHS:
                told.headers["connection"] = "close"
            await told(scope, receive, _with_headers(send, scope))
            return
        if scope["method"] == "HEAD":
            # Answered as GET is; the server leaves the body out.
            scope = {**scope, "method": "GET"}
        has_begun = False
        is_button = scope["method"] not in _READING and scope["path"].startswith(_BUTTONS)

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            if is_button and message.get("status", 500) < _FAILED:
                # Before it is told: who has pressed a button must see it on the next page.
                scope["app"].state.service.pages.forget()
            await _with_headers(send, scope)(message)

        try:
            await self._app(scope, self._bounded(receive), sending)
        except asyncio.CancelledError:
            # The process ends, and has waited long enough.
            if not has_begun:
                await answer(_ENDING)(scope, receive, sending)

    def _refused(self, scope: MutableMapping[str, Any]) -> Refused | None:
        if len(scope.get("query_string", b"")) > _LONGEST_QUERY:
            return Refused(
                414, "the query is too long", remedy=f"send at most {_LONGEST_QUERY} bytes"
            )
        names = {name for name, _ in scope["headers"]}
        if b"content-length" in names and b"transfer-encoding" in names:
            return _TWO_LENGTHS
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if lengths and (not lengths[0].isdigit() or int(lengths[0]) > self._largest):
            return self._too_large()
        return None

    def _too_large(self) -> Refused:
        return Refused(
            413,
            "the request is too large",
            cause=f"a body has at most {self._largest} bytes",
            remedy="commit in smaller parts, or from Python",
        )

    def _bounded(self, receive: Receive) -> Receive:
        seen = 0
        begun: float | None = None
        is_whole = False

        async def bounded() -> Message:
            nonlocal seen, begun, is_whole
            if is_whole:
                # After the body comes only the disconnect, which may take its time.
                return await receive()
            now = time.monotonic()
            begun = now if begun is None else begun
            try:
                left = begun + _PATIENCE + seen / _SLOWEST - now
                message = await asyncio.wait_for(receive(), left)
            except TimeoutError:
                raise Refused(
                    408, "the request did not arrive in time", remedy="send it again"
                ) from None
            seen += len(message.get("body", b""))
            if seen > self._largest:
                raise self._too_large()
            is_whole = not message.get("more_body", False)
            return message

        return bounded


def _with_headers(send: Send, scope: MutableMapping[str, Any]) -> Send:
    is_static = scope["path"].startswith("/static/")

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            headers += _HEADERS
            age = b"public, max-age=300" if is_static else b"no-store"
            headers.append((b"cache-control", age))
            message["headers"] = headers
        await send(message)

    return sending
