"""Where the benchmark runs: a temporary folder, a PostgreSQL server, a slow network."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.parts.postgres import PostgresServer
from tests.parts.seaweedfs import SeaweedFs
from tests.parts.toxiproxy import Proxy, Toxiproxy

REPEATS = 5
ROUND_TRIP_MS = 5


@dataclass
class Lab:
    """Parts are started when the first line asks for them, and stopped at the end."""

    scale: float
    root: Path
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    # What several lines use and one of them made.
    shared: dict[str, Any] = field(default_factory=dict)

    def scaled(self, count: int, *, least: int = 1) -> int:
        return max(least, round(count * self.scale))

    @property
    def seconds(self) -> float:
        """How long a round of a throughput line lasts; each line has three rounds a side."""
        return max(1.0, 5.0 * self.scale)

    def folder(self, name: str) -> Path:
        """A new folder that the server's user can reach too."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.root))
        path.chmod(0o755)
        return path

    @cached_property
    def postgres(self) -> PostgresServer:
        say("starting PostgreSQL")
        return self.stack.enter_context(PostgresServer(self.folder("postgres")))

    @cached_property
    def slow_postgres(self) -> Proxy:
        """The server behind a network whose answers come 5 ms later."""
        say(f"starting toxiproxy, {ROUND_TRIP_MS} ms of round trip")
        toxiproxy = self.stack.enter_context(Toxiproxy(self.folder("toxiproxy")))
        proxy = toxiproxy.proxy("slow", self.postgres.port)
        proxy.add("latency", latency=ROUND_TRIP_MS, stream="downstream")
        return proxy

    @cached_property
    def seaweedfs(self) -> SeaweedFs:
        """An S3 server."""
        say("starting SeaweedFS")
        return self.stack.enter_context(SeaweedFs(self.folder("seaweedfs")))

    @property
    def has_postgres(self) -> bool:
        return "postgres" in self.__dict__

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        """An empty database for the length of a block."""
        url = self.postgres.create_database(name)
        try:
            yield url
        finally:
            self.postgres.drop_database(name)

    def settle(self) -> None:
        """Let the server finish what earlier measurements left behind."""
        gc.collect()
        if self.has_postgres:
            with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
                connection.execute("CHECKPOINT")


@contextlib.contextmanager
def open_lab(scale: float) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="deltasql-bench-") as root:
        Path(root).chmod(0o755)
        with contextlib.ExitStack() as stack:
            yield Lab(scale, Path(root), stack)


def alternated(
    ours: Callable[[], Any], peer: Callable[[], Any], *, repeats: int = REPEATS
) -> tuple[float, float]:
    """Median seconds of each, one after the other in turn, after a warm-up of both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for work, taken in zip((ours, peer), times, strict=True):
            seconds = timed(work)
            if turn > 0:
                taken.append(seconds)
    return statistics.median(times[0]), statistics.median(times[1])


def timed(work: Callable[[], Any]) -> float:
    """Seconds that a call takes; what it returns is thrown away after the clock stopped."""
    gc.collect()
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    del result
    return seconds


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def say(text: str) -> None:
    """Progress, apart from the results."""
    print(f"· {text}", file=sys.stderr, flush=True)
