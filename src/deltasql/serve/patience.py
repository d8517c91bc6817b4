"""Connections whose clients dawdle: ended before they take the places of others.

uvicorn bounds the time between two requests, and `limits` the time of a body. Nothing bounds how
long the headers of a request may take: a few hundred connections that send a byte now and then
would take every place there is.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a bound on the time for the headers of a request."""

    patience: ClassVar[float] = 10.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; the clock runs on until the headers are whole."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.patience, self._hang_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        # An answer that is still being sent belongs to the request before.
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
