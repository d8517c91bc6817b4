"""A loopback socket for clients that know the secret: messages prefixed with their length.

Both sides prove that they know it, each using the random values of both, and it is never sent:
others on the machine can neither ask nor answer. `PluginChannel.java` is the other end.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import socketserver
import struct
from collections.abc import Callable

logger = logging.getLogger("deltasql.spark")

_LENGTH = struct.Struct(">i")
_PROOF_TIMEOUT = 10.0
# The limit before the proof, so that nobody can fill the memory with a large length.
_LONGEST_PROOF = 1024
_LONGEST = 2**31 - 1


class Server(socketserver.ThreadingTCPServer):
    """One thread per connection; `answer` takes a message and returns one."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, secret: bytes, answer: Callable[[str], str]) -> None:
        self.secret = secret
        self.answer = answer
        super().__init__(("127.0.0.1", 0), _Connection)

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.server_address[1]
        return port


class _Connection(socketserver.BaseRequestHandler):
    """A driver's connection, from the proof to its end."""

    server: Server
    request: socket.socket

    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request.settimeout(_PROOF_TIMEOUT)
        try:
            if not self._is_proven():
                logger.warning("a connection without the driver's secret was refused")
                return
            self.request.settimeout(None)
            while (message := self._receive(_LONGEST)) is not None:
                self._send(self.server.answer(message))
        except OSError as error:
            logger.info("a connection from the driver ended: %s", error)

    def _is_proven(self) -> bool:
        ours = secrets.token_hex(32)
        self._send(ours)
        given, _, theirs = (self._receive(_LONGEST_PROOF) or "").partition("\n")
        if not hmac.compare_digest(given.encode(), self._proof("driver", ours, theirs).encode()):
            return False
        self._send(self._proof("lake", ours, theirs))
        return True

    def _proof(self, role: str, ours: str, theirs: str) -> str:
        text = f"{role}\n{ours}\n{theirs}"
        return hmac.new(self.server.secret, text.encode(), "sha256").hexdigest()

    def _send(self, message: str) -> None:
        body = message.encode()
        self.request.sendall(_LENGTH.pack(len(body)) + body)

    def _receive(self, longest: int) -> str | None:
        """A message; None at the end of the connection, or if it is too long."""
        start = self._exactly(_LENGTH.size)
        if start is None:
            return None
        (length,) = _LENGTH.unpack(start)
        if not 0 <= length <= longest:
            return None
        body = self._exactly(length)
        return None if body is None else body.decode()

    def _exactly(self, length: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < length:
            piece = self.request.recv(min(length - len(parts), 1 << 20))
            if not piece:
                return None
            parts += piece
        return bytes(parts)
