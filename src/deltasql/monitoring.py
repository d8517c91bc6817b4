"""The metrics of a lake, for Prometheus: what was counted, and what is looked up when asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric

from deltasql import metrics
from deltasql.errors import DeltaSqlError

if TYPE_CHECKING:
    from deltasql.catalog import Lake

# Counting the files of a large table takes the database a while.
_COUNT_EVERY: Final = 30.0


class LakeCollector:
    """The counters of this process, and gauges of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        self._files: dict[str, int] = {}
        self._counted: float | None = None

    def collect(self) -> Iterable[Metric]:
        """What a scrape gets."""
        yield from metrics.REGISTRY.collect()
        files = GaugeMetricFamily("files_active_gauge", "Live files", labels=["table"])
        for name, count in self._count_files().items():
            files.add_metric([name], count)
        yield files
        in_use, waiting = self._lake.store.pool_usage()
        yield GaugeMetricFamily("sql_pool_in_use", "SQL connections in use", value=in_use)
        yield GaugeMetricFamily("sql_pool_waiting", "Waiting for a connection", value=waiting)

    def _count_files(self) -> dict[str, int]:
        with self._lock:
            now = time.monotonic()
            if self._counted is None or now - self._counted > _COUNT_EVERY:
                self._counted = now
                try:
                    store = self._lake.store
                    self._files = {
                        table.name: store.totals(table.table_id, table.version).files
                        for table in self._lake.tables()
                    }
                except DeltaSqlError:
                    # A scrape must answer when the database does not; the rest still tells.
                    self._files = {}
            return self._files


def registry(lake: Lake) -> CollectorRegistry:
    """Everything that is measured of a lake."""
    made = CollectorRegistry()
    made.register(LakeCollector(lake))
    return made


def serve(lake: Lake, port: int) -> str:
    """Serve the metrics on loopback from a thread; returns the address. Port 0 takes any."""
    server, _ = start_http_server(port, addr="127.0.0.1", registry=registry(lake))
    return f"http://127.0.0.1:{server.server_port}/metrics"
