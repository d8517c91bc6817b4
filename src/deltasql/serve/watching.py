"""The state of the lake: what is behind, and the figures that SQL has about all commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from deltasql.errors import StoreError
from deltasql.log.retention import OFF, mirror_mode
from deltasql.serve.service import Service
from deltasql.serve.tokens import Visitor
from deltasql.store.browsing.interface import BehindTable

_MOST: Final = 500


def behind(service: Service, visitor: Visitor) -> list[BehindTable]:
    """Tables whose mirror lacks versions; one that is not mirrored is not late."""
    default = service.lake.engine.settings.mirror_mode
    return [
        item
        for item in service.lake.store.behind(most=_MOST)
        if visitor.sees(item.name) and (mirror_mode(json.loads(item.properties)) or default) != OFF
    ]


def lag_seconds(service: Service, item: BehindTable) -> float:
    """How long the oldest missing version has waited."""
    return max(0.0, (service.lake.store.clock_ms() - item.oldest) / 1000)


class LakeFigures(Collector):
    """Figures from SQL, read at the time of the scrape, whichever process committed."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterator[Metric]:
        """No names in advance: registering must not query a database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The figures; while the database is unreachable, `lake_up` is 0 and the rest missing."""
        up = GaugeMetricFamily("lake_up", "1 while the lake's database answers")
        try:
            summary = self._service.lake.store.summary()
        except StoreError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield GaugeMetricFamily("lake_tables", "Tables of the lake", value=summary.tables)
        yield CounterMetricFamily(
            "lake_versions", "Versions of all tables, whoever committed them", summary.versions
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
