"""The state of the lake: what is behind, and the figures that SQL has about all commits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from deltasql.errors import StoreError
from deltasql.log.retention import OFF, mirror_mode
from deltasql.serve.service import Service
from deltasql.serve.tokens import Visitor
from deltasql.store.browsing.interface import BehindTable
from deltasql.telemetry import metrics

# More than a lake has tables: what is left out here would be called up to date.
_MOST: Final = 1_000_000
_HOUR: Final = 3_600_000
_SETTLED: Final = 2_000


def behind(service: Service, visitor: Visitor, *, name: str = "") -> list[BehindTable]:
    """Tables whose mirror lacks versions, or the one of that name if it does; one that is not
    mirrored is not late.
    """
    default = service.lake.engine.settings.mirror_mode
    return [
        item
        for item in service.lake.store.behind(name=name, schemas=visitor.schemas, most=_MOST)
        if visitor.sees(item.name) and (mirror_mode(json.loads(item.properties)) or default) != OFF
    ]


def drifted(service: Service, visitor: Visitor) -> set[str]:
    """Tables whose mirror is not as SQL says, as this instance's worker or jobs found."""
    known = service.lake.store.browse_table
    # The worker forgets tables that are dropped; jobs don't.
    found = {name for name in service.jobs.differing() if visitor.sees(name) and known(name)}
    if not service.wants_worker:
        return found
    return found | {
        sample.labels["table"]
        for family in metrics.MIRROR_DRIFT.collect()
        for sample in family.samples
        if sample.value and visitor.sees(sample.labels["table"])
    }


def lag_seconds(item: BehindTable, now: int) -> float:
    """How long the oldest missing version has waited, at a time of the database."""
    return max(0.0, (now - item.oldest) / 1000)


class LakeFigures(Collector):
    """Figures from SQL, read at the time of the scrape, whichever process committed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._committed = 0
        self._counted_upto: int | None = None

    def describe(self) -> Iterator[Metric]:
        """No names in advance: registering must not query a database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The figures; while the database is unreachable, `lake_up` is 0 and the rest missing."""
        up = GaugeMetricFamily("lake_up", "1 while the lake's database answers")
        try:
            summary = self._service.lake.store.summary()
            committed = self._count_commits()
        except StoreError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield GaugeMetricFamily("lake_tables", "Tables of the lake", value=summary.tables)
        yield CounterMetricFamily(
            "lake_versions",
            "Versions that were committed since this process began, by anybody",
            committed,
        )
        yield GaugeMetricFamily("lake_files", "Live files as mirrored", value=summary.files)
        yield GaugeMetricFamily("lake_bytes", "Their size in bytes", value=summary.size_bytes)
        if self._service.wants_worker:
            worker = self._service.worker
            yield GaugeMetricFamily(
                "lake_worker_up",
                "1 while this instance's worker lives",
                value=int(worker is not None and worker.is_alive()),
            )

    def _count_commits(self) -> int:
        """The commits so far, by their times.

        Sums over the tables would not do: they shrink when versions expire and tables are dropped,
        which a counter must not, and grow when a table with a long history is adopted.
        """
        with self._lock:
            store = self._service.lake.store
            now = store.clock_ms()
            start = self._counted_upto
            if start is None:
                start = now - int((time.time() - self._service.started) * 1000)
            # A commit takes its time a moment before others see it.
            upto = max(start, now - _SETTLED)
            found = store.activity(start=start, stop=upto, bucket=_HOUR)
            self._committed += sum(found.values())
            self._counted_upto = upto
            return self._committed
