"""The process: sockets, the worker beside the HTTP server, and an orderly shutdown."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from deltasql.errors import ConfigError
from deltasql.lake.catalog import Lake
from deltasql.serve.access import is_loopback
from deltasql.serve.app import create_app
from deltasql.serve.jobs import Jobs
from deltasql.serve.patience import PatientProtocol
from deltasql.serve.service import Service
from deltasql.serve.tokens import TokenFile
from deltasql.serve.unity.vending import Vending

logger = logging.getLogger("deltasql.serve")

# How long running requests may take once the process is to end.
_GRACE: Final = 10
_WORKER_AGAIN: Final = 5.0
_MOST_REQUESTS: Final = 500
_BACKLOG: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the service listens, and its certificate."""

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    key: Path | None = None


def serve(
    lake: Lake,
    address: Address,
    *,
    token_file: Path | None = None,
    with_worker: bool = True,
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve a lake until SIGTERM or SIGINT; running requests and publish runs are finished."""
    if token_file is None and not is_loopback(address.host):
        raise ConfigError(
            f"{address.host} can't be served without tokens",
            cause="whoever reaches the address could read and operate the lake",
            remedy="pass --token-file; deltasql token makes a token",
        )
    if (address.certificate is None) != (address.key is None):
        raise ConfigError("TLS needs a certificate and its key", remedy="give both files")
    tokens = None if token_file is None else TokenFile(token_file)
    service = Service(
        lake,
        Jobs(),
        Vending(lake.storage, lake.engine.settings.catalog_credentials),
        tokens,
        has_tls=address.certificate is not None,
        wants_worker=with_worker,
    )
    config = uvicorn.Config(
        create_app(service),
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=None if address.certificate is None else str(address.certificate),
        ssl_keyfile=None if address.key is None else str(address.key),
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=10,
        limit_concurrency=_MOST_REQUESTS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    # What the HTTP server has to say reads like the rest of the log.
    server_log = logging.getLogger("uvicorn")
    if not server_log.hasHandlers():
        server_log.handlers = logging.getLogger("deltasql").handlers
    listening = listen(address)
    try:
        with _stopping() as stop, _working(service, stop, wanted=with_worker):
            scheme = "https" if service.has_tls else "http"
            host = f"[{address.host}]" if ":" in address.host else address.host
            announce(f"{scheme}://{host}:{listening.getsockname()[1]}")
            uvicorn.Server(config).run(sockets=[listening])
            stop.set()
    finally:
        service.jobs.close()
        listening.close()


def listen(address: Address) -> socket.socket:
    """A socket at that address, ready for connections."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = found[0]
        # Without the protocol, asyncio does not know connections for TCP's, and leaves Nagle's
        # algorithm on: 40 ms for every answer but a connection's first.
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"{address.host}:{address.port} can't be served",
            cause=error.strerror or str(error),
            remedy="choose another port; 0 takes any that is free",
        ) from None
    return listening


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set.

    uvicorn catches them while it runs, and afterwards raises them again for the previous handlers:
    these.
    """
    stop = threading.Event()
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    for name in before:
        signal.signal(name, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def _working(service: Service, stop: threading.Event, *, wanted: bool) -> Iterator[None]:
    """The mirror's worker, in a thread, for the duration of the block."""
    if not wanted:
        yield
        return

    def work() -> None:
        while not stop.is_set():
            try:
                service.lake.mirror.run(stop=stop)
            except Exception:
                logger.exception("the worker failed unexpectedly and restarts")
                stop.wait(_WORKER_AGAIN)

    service.worker = threading.Thread(target=work, name="deltasql-worker", daemon=True)
    service.worker.start()
    try:
        yield
    finally:
        stop.set()
        service.worker.join()
