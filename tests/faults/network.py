"""A network that fails at the moment a commit is sent, and heals soon after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltasql
from tests.parts.toxiproxy import Proxy
from tests.stress import history
from tests.stress.journal import Journal, Told
from tests.stress.swarm import Swarm
from tests.stress.writers import SEVERAL_TABLES, Writer, create_tables

TABLES = 3


class Tripwire(Journal):
    """A journal that springs a trap once a commit is written down and about to be sent."""

    trap: Callable[[], object] | None = None

    def begin(self, *arguments: Any, **details: Any) -> None:
        super().begin(*arguments, **details)
        trap, self.trap = self.trap, None
        if trap is not None:
            trap()


class FaultyLake:
    """A writer behind a proxy, and the same database without one."""

    def __init__(self, url: str, proxied_url: str, proxy: Proxy, directory: Path) -> None:
        self.url = url
        self.proxied_url = proxied_url
        self.proxy = proxy
        self.location = directory.joinpath("lake").as_uri()
        self.tables = create_tables(url, self.location, TABLES)
        settings = {"sql.timeout": "20s", "sql.pool_size": 2}
        self.lake = deltasql.connect(proxied_url, location=self.location, settings=settings)
        swarm = Swarm(url, self.location, directory, self.tables, SEVERAL_TABLES)
        (job,) = swarm.jobs(1, 10**9)
        self.journal = Tripwire(job.journal)
        self.writer = Writer(job, self.lake, self.journal)

    def do(self, kind: str) -> None:
        """A commit of some kind, which has to succeed."""
        self.writer.do(kind)

    def check(self) -> history.Summary:
        """Every commit is in, once."""
        told = self.told
        found = history.check(self.url, self.location, told)
        assert found.acknowledged == len(told.intents)
        return found

    @property
    def told(self) -> Told:
        return Told.read(self.journal.path)

    def connections_lost(self) -> int:
        """How often a broken connection came back to the pool."""
        stats = self.lake.store._connections._pool.get_stats()
        return stats.get("returns_bad", 0)

    @contextmanager
    def trapped(self, kind: str, **attributes: Any) -> Iterator[None]:
        """A toxic from the moment the next commit is sent until it has cut a connection."""
        is_set, is_over = threading.Event(), threading.Event()
        lost = 0

        def spring() -> None:
            nonlocal lost
            # From here on: reads before it may have ended connections of their own.
            lost = self.connections_lost()
            self.proxy.add(kind, **attributes)
            is_set.set()

        def heal() -> None:
            while not is_over.wait(0.001):
                if is_set.is_set() and self.connections_lost() > lost:
                    break
            if is_set.is_set():
                self.proxy.remove(f"{kind}_{attributes.get('stream', 'downstream')}")

        self.journal.trap = spring
        healer = threading.Thread(target=heal)
        healer.start()
        try:
            yield
        finally:
            is_over.set()
            healer.join()
            self.journal.trap = None

    def lose_answer_of_next_commit(self) -> None:
        """From the next call of the store's `commit` on, nothing comes back from the server."""
        store = self.lake.store
        commit = store.commit

        def unheard(*arguments: Any, **options: Any) -> Any:
            del store.commit
            self.proxy.add("timeout", timeout=0)
            return commit(*arguments, **options)

        store.commit = unheard

    def reconnect(self) -> None:
        """End the silence: every connection dies, and new ones work."""
        self.proxy.disable()
        self.proxy.remove("timeout_downstream")
        self.proxy.enable()

    def close(self) -> None:
        self.lake.close()
        self.journal.close()
