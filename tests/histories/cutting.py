"""A network that is cut at random, between clients and their database or behind a pooler."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import psycopg

from tests.parts.toxiproxy import Proxy


class Cutter:
    """Cuts connections until it is stopped; the network is whole again then."""

    def __init__(self, proxies: Sequence[Proxy], server: str, dbname: str, seed: int) -> None:
        self._proxies, self._server, self._dbname = proxies, server, dbname
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.cuts = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._rng.uniform(0.1, 0.9)):
            self.cuts += 1
            self._cut(self._rng.choice(self._proxies))

    def _cut(self, proxy: Proxy) -> None:
        rng = self._rng
        stream = rng.choice(("upstream", "downstream"))
        match rng.randrange(6):
            case 0:
                proxy.disable()
                self._stop.wait(rng.uniform(0, 0.1))
                proxy.enable()
            case 1:
                with proxy.toxic("reset_peer", stream=stream, timeout=rng.choice((0, 1, 5))):
                    self._stop.wait(rng.uniform(0, 0.05))
            case 2:
                size = rng.choice((1, 50, 100, 500, 1500, 3000))
                with proxy.toxic("limit_data", stream=stream, bytes=size):
                    self._stop.wait(rng.uniform(0.01, 0.08))
            case 3:
                with proxy.toxic("timeout", stream=stream, timeout=rng.choice((5, 50))):
                    self._stop.wait(rng.uniform(0.01, 0.1))
            case 4:
                with proxy.toxic("latency", latency=rng.choice((1, 10, 30)), jitter=5):
                    self._stop.wait(rng.uniform(0, 0.2))
            case _:
                with psycopg.connect(self._server, autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
                        " AND pid <> pg_backend_pid() AND random() < 0.5",
                        (self._dbname,),
                    )
