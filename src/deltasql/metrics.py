"""What deltasql counts and measures, as Prometheus metrics in a registry of their own."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
VERSIONS_COMMITTED: Final = Counter("versions_committed", "Versions committed", registry=REGISTRY)
COMMIT_CONFLICTS: Final = Counter(
    "commit_conflicts", "Commits refused for a conflict", registry=REGISTRY
)
