"""What deltasql counts and measures, as Prometheus metrics in a registry of its own."""

from __future__ import annotations

import time
from collections import Counter as Sum
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from deltasql.errors import ConfigError, StoreError

REGISTRY: Final = CollectorRegistry()
_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)

METADATA_OPEN_LATENCY: Final = Histogram(
    "metadata_open_latency_ms", "Opening a snapshot", buckets=_MS, registry=REGISTRY
)
COMMIT_LATENCY: Final = Histogram(
    "commit_latency_ms", "Committing to SQL", buckets=_MS, registry=REGISTRY
)
MIRROR_LATENCY: Final = Histogram(
    "mirror_latency_ms", "From the SQL commit to the commit file", buckets=_MS, registry=REGISTRY
)
MIRROR_PUBLISH_LATENCY: Final = Histogram(
    "mirror_publish_latency_ms",
    "From the SQL commit to the commit file, of every version, whoever wrote it; by SQL's clock",
    buckets=(*_MS, 300_000, 3_600_000),
    registry=REGISTRY,
)
MIRROR_LAG_SECONDS: Final = Gauge(
    "mirror_lag_seconds", "Age of the oldest version not mirrored", ["table"], registry=REGISTRY
)
MIRROR_LAG_VERSIONS: Final = Gauge(
    "mirror_lag_versions", "Versions not mirrored", ["table"], registry=REGISTRY
)
MIRROR_BACKLOG: Final = Gauge(
    "mirror_backlog_gauge", "Versions not mirrored, over all tables", registry=REGISTRY
)
MIRROR_FAILURES: Final = Counter(
    "mirror_failures", "Attempts to mirror that failed", ["table"], registry=REGISTRY
)
MIRROR_ALERT: Final = Gauge(
    "mirror_alert", "1 while a table's mirror needs a look", ["table"], registry=REGISTRY
)
MIRROR_LATE: Final = Gauge(
    "mirror_late", "1 while a table's mirror is too far behind", ["table"], registry=REGISTRY
)
MIRROR_FAILED: Final = Gauge(
    "mirror_failed", "1 while a version of a table is FAILED", ["table"], registry=REGISTRY
)
MIRROR_DRIFT: Final = Gauge(
    "mirror_drift", "1 while validation finds that a mirror drifted", ["table"], registry=REGISTRY
)
MIRROR_WORKER_ROUND: Final = Gauge(
    "mirror_worker_round_seconds",
    "When the worker last looked for work, Unix time",
    registry=REGISTRY,
)
# The metrics that have a series for each table.
BY_TABLE: Final = (
    MIRROR_LAG_SECONDS,
    MIRROR_LAG_VERSIONS,
    MIRROR_ALERT,
    MIRROR_LATE,
    MIRROR_FAILED,
    MIRROR_DRIFT,
)
VERSIONS_COMMITTED: Final = Counter("versions_committed", "Versions committed", registry=REGISTRY)
COMMIT_CONFLICTS: Final = Counter(
    "commit_conflicts", "Commits refused for a conflict", registry=REGISTRY
)
REPLICA_READS: Final = Counter(
    "sql_replica_reads", "Reads that the replica in sql.read_url answered", registry=REGISTRY
)
REPLICA_FALLBACKS: Final = Counter(
    "sql_replica_fallbacks",
    "How often reads went back to the primary: the replica failed, or was behind",
    ["reason"],
    registry=REGISTRY,
)
SQL_ROUND_TRIPS: Final = Counter(
    "sql_round_trips", "Questions to PostgreSQL; their rate is our load on it", registry=REGISTRY
)


# --- what is read at the time of a scrape ---------------------------------------------

# Counting the files of a large lake takes a while, so not at every scrape.
_COUNT_EVERY: Final = 60.0


class Watched(Protocol):
    """What a store reports about itself."""

    def pool_usage(self) -> tuple[int, int]:
        """Connections in use, and threads waiting for one."""

    def file_counts(self) -> dict[str, int]:
        """Live files by table."""


class StoreGauges(Collector):
    """Gauges of this process's open stores, read at the time of the scrape."""

    def __init__(self) -> None:
        self._stores: WeakKeyDictionary[Watched, tuple[float, dict[str, int]]] = WeakKeyDictionary()

    def watch(self, store: Watched) -> None:
        """Report a store, until it is gone or `unwatch`ed."""
        self._stores[store] = (-_COUNT_EVERY, {})

    def unwatch(self, store: Watched) -> None:
        """Stop reporting it."""
        self._stores.pop(store, None)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The gauges without values, so that registering them asks no database."""
        yield from self._families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges."""
        in_use, waiting, files = self._families()
        stores = list(self._stores)
        usages = [store.pool_usage() for store in stores]
        in_use.add_metric([], sum(used for used, _ in usages))
        waiting.add_metric([], sum(waits for _, waits in usages))
        counts: Sum[str] = Sum()
        for store in stores:
            counts.update(self._file_counts(store))
        for table, count in counts.items():
            files.add_metric([table], count)
        yield from (in_use, waiting, files)

    def _file_counts(self, store: Watched) -> dict[str, int]:
        counted, found = self._stores.get(store, (0.0, {}))
        if time.monotonic() - counted >= _COUNT_EVERY:
            try:
                found = store.file_counts()
            except StoreError:
                # An unreachable database has other alarms; the last counts stay.
                return found
            self._stores[store] = (time.monotonic(), found)
        return found

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily("sql_pool_in_use", "Connections to the database in use"),
            GaugeMetricFamily("sql_pool_waiting", "Threads that wait for a connection"),
            GaugeMetricFamily("files_active_gauge", "Live files", labels=["table"]),
        )


STORES: Final = StoreGauges()
REGISTRY.register(STORES)


def forget_table(name: str) -> None:
    """Stop reporting a table: a dropped one is neither late nor failed."""
    for gauge in BY_TABLE:
        with suppress(KeyError):
            gauge.remove(name)


def serve(port: int) -> str:
    """Serve the metrics on loopback from a thread; returns the address. Port 0 takes any."""
    try:
        server, _ = start_http_server(port, addr="127.0.0.1", registry=REGISTRY)
    except OSError as error:
        raise ConfigError(
            f"the metrics can't be served at port {port}",
            cause=error.strerror or str(error),
            remedy="choose another port; 0 takes any that is free",
        ) from None
    return f"http://127.0.0.1:{server.server_port}/metrics"
