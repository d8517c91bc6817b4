"""Connections whose clients dawdle: ended before they take the places of others.

uvicorn bounds the time between two requests, and `limits` the time of a body. Nothing bounds how
long the headers of a request may take, or how long a client may leave its answer unread: a few
hundred connections that send a byte now and then, or read none, would take every place there is.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with bounds on the time for headers, and for answers."""

    patience: ClassVar[float] = 10.0
    # Who reads less than `least` bytes of an answer in `reading_patience` seconds reads no more.
    reading_patience: ClassVar[float] = 20.0
    least: ClassVar[int] = 16_384
    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        # Writing pauses while anything is unsent, so the rest only shrinks meanwhile.
        transport.set_write_buffer_limits(high=1, low=0)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; the clock runs on until the headers are whole."""
        super().data_received(data)
        if not self._is_awaited():
            self._stop()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        self._stop_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to watch whether the client reads its answer."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The answer is sent, as far as it is there."""
        self._stop_reading()
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Browsers and scanners ask for other protocols; there is nothing to install for them."""

    def _watch(self, unsent: int) -> None:
        self._reading = self.loop.call_later(self.reading_patience, self._look, unsent)

    def _look(self, before: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent > before - self.least:
            # Not close: that would wait for the rest to be sent.
            self.transport.abort()
        else:
            self._watch(unsent)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.patience, self._hang_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        # An answer that is still being sent belongs to the request before.
        if self._is_awaited() and not self.transport.is_closing():
            self.transport.close()

    def _is_awaited(self) -> bool:
        """Whether it is the client's turn: for headers, or the rest of a body already answered."""
        return self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE
