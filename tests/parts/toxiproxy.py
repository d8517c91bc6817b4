"""toxiproxy: a network that is slow, cuts connections and loses answers when told to."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from tests.parts.locked import go_build
from tests.parts.process import TOOLS, LoopbackProcess, PartMissingError

PROGRAM = TOOLS / "toxiproxy-server"

Stream = Literal["upstream", "downstream"]


def find() -> str:
    """The program."""
    if not PROGRAM.exists():
        raise PartMissingError("toxiproxy is not installed; run: make parts")
    return str(PROGRAM)


def ensure() -> None:
    """Build toxiproxy unless it is there."""
    if not PROGRAM.exists():
        go_build("toxiproxy", "github.com/Shopify/toxiproxy/v2/cmd/server", PROGRAM)


class Proxy:
    """One proxied port. Toxics act on new bytes of open connections too."""

    def __init__(self, server: Toxiproxy, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self._server = server

    def add(
        self,
        kind: Literal["latency", "bandwidth", "slow_close", "timeout", "reset_peer", "limit_data"],
        *,
        stream: Stream = "downstream",
        toxicity: float = 1.0,
        **attributes: int,
    ) -> str:
        """Add a toxic (`add("latency", latency=5)`, milliseconds and bytes) and return its name.

        `downstream` is what the server answers, `upstream` what the client sends; `toxicity` is
        the share of connections that suffer.
        """
        name = f"{kind}_{stream}"
        toxic = {
            "name": name,
            "type": kind,
            "stream": stream,
            "toxicity": toxicity,
            "attributes": attributes,
        }
        self._server.call("POST", f"/proxies/{self.name}/toxics", toxic)
        return name

    def remove(self, toxic: str) -> None:
        self._server.call("DELETE", f"/proxies/{self.name}/toxics/{toxic}")

    @contextmanager
    def toxic(self, kind: Any, **options: Any) -> Iterator[None]:
        """A toxic for the length of a block; the arguments are those of `add`."""
        name = self.add(kind, **options)
        try:
            yield
        finally:
            self.remove(name)

    def disable(self) -> None:
        """Cut all connections and refuse new ones."""
        self._server.call("POST", f"/proxies/{self.name}", {"enabled": False})

    def enable(self) -> None:
        self._server.call("POST", f"/proxies/{self.name}", {"enabled": True})

    def delete(self) -> None:
        self._server.call("DELETE", f"/proxies/{self.name}")


class Toxiproxy(LoopbackProcess):
    """The proxy server; `port` is its control port. A restart forgets the proxies."""

    name = "toxiproxy"

    def command(self) -> list[str]:
        return [find(), "-host", "127.0.0.1", "-port", str(self.port)]

    def proxy(self, name: str, upstream: int) -> Proxy:
        """Put a proxy in front of a loopback port; toxiproxy chooses the new port."""
        made = self.call(
            "POST",
            "/proxies",
            {"name": name, "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{upstream}"},
        )
        return Proxy(self, name, int(made["listen"].rpartition(":")[2]))

    def reset(self) -> None:
        """Enable every proxy and remove every toxic."""
        self.call("POST", "/reset")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        # A proxy in the environment must not stand between us and loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"toxiproxy: {method} {path}: {error.read().decode()}") from error
