"""Many clients of a service at once, in a process of their own, on bare sockets: a client library
would take more of the machine than the service.

    python -m bench.askers ADDRESS CLIENTS SECONDS PAUSE PATH…

Each client asks for one path after the other, on one connection, with a pause in between. Prints
the milliseconds of every answer by path, and the statuses, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, defaultdict
from urllib.parse import urlsplit


async def _client(address: str, paths: list[str], until: float, pause: float, found: Found) -> None:
    place = urlsplit(address)
    await asyncio.sleep(random.uniform(0, pause))
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    turn = random.randrange(len(paths))
    while time.monotonic() < until:
        path = paths[turn % len(paths)]
        turn += 1
        started = time.perf_counter()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next(line for line in lines if line.startswith("content-length:"))
        await reader.readexactly(int(length.partition(":")[2]))
        found.times[path].append((time.perf_counter() - started) * 1000)
        found.statuses[lines[0].split()[1]] += 1
        if pause:
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
    writer.close()


class Found:
    """What the clients saw."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.statuses: Counter[str] = Counter()


async def _all(address: str, clients: int, seconds: float, pause: float, paths: list[str]) -> Found:
    found = Found()
    until = time.monotonic() + seconds
    await asyncio.gather(*(_client(address, paths, until, pause, found) for _ in range(clients)))
    return found


if __name__ == "__main__":
    at, clients, seconds, pause, *paths = sys.argv[1:]
    seen = asyncio.run(_all(at, int(clients), float(seconds), float(pause), paths))
    print(json.dumps({"times": seen.times, "statuses": seen.statuses}))
