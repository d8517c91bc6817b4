"""The lag of tables, reported to the metrics and, if it is too long, to the log."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from deltasql.log.retention import OFF
from deltasql.mirror.publishing.lag import LagWatch
from deltasql.mirror.targets import target_of
from deltasql.store.mirroring.interface import Backlog
from deltasql.telemetry import metrics

if TYPE_CHECKING:
    from deltasql.mirror.engine import MirrorEngine

logger = logging.getLogger("deltasql.mirror")


class LagReport:
    """Reports tables that are behind, and those that no longer are."""

    def __init__(self, engine: MirrorEngine) -> None:
        self._engine = engine
        self._settings = engine.settings
        self._lag = LagWatch()
        self._alerted: set[int] = set()
        self._drifted: set[str] = set()
        # Every table that has metrics, and the ids of those that were behind at the last look.
        self._named: set[str] = set()
        self._behind: dict[int, str] = {}

    def know(self, names: Collection[str]) -> None:
        """Set the tables that exist: alerts for those that are gone would never end."""
        for name in self._named.difference(names):
            metrics.forget_table(name)
        for name in set(names).difference(self._named):
            self._tell(name)
        self._named = set(names)

    def drifted(self, names: Collection[str]) -> None:
        """Report the tables that validation found to differ from SQL."""
        changed = self._drifted.symmetric_difference(names)
        self._drifted = set(names)
        for name in changed & self._named - {*self._behind.values()}:
            self._tell(name)

    def observe(self, found: Sequence[Backlog], now: int) -> None:
        """Report the tables whose mirror lacks something, at a time of the database."""
        metrics.MIRROR_WORKER_ROUND.set_to_current_time()
        for item in found:
            self._observe(item, now)
        behind = {item.table_id: item.name for item in found}
        late = [item for item in found if not self._is_off(item)]
        metrics.MIRROR_BACKLOG.set(sum(item.versions + item.gap_versions for item in late))
        for table_id in self._behind.keys() - behind.keys():
            name = self._behind[table_id]
            self._lag.forget(table_id)
            self._alerted.discard(table_id)
            if name in self._named:
                self._tell(name)
        self._behind = behind
        self._named.update(self._behind.values())

    def _is_off(self, item: Backlog) -> bool:
        return self._engine.mode_of(target_of(item)) == OFF

    def _observe(self, item: Backlog, now: int) -> None:
        # A table that is not mirrored is not late.
        is_off = self._is_off(item)
        lag = 0.0 if is_off else self._lag.seconds(item, now)
        is_late = not is_off and (
            lag > self._settings.mirror_lag_alert
            or item.versions > self._settings.mirror_lag_alert_versions
        )
        is_failed = not is_off and item.is_failed
        versions = 0 if is_off else item.versions
        self._tell(item.name, lag=lag, versions=versions, is_late=is_late, is_failed=is_failed)
        is_bad = is_late or is_failed
        if is_bad and item.table_id not in self._alerted:
            facts = {"version": item.first_version, "error": item.error_message}
            logger.error(
                "%s: the mirror is %d versions and %.0f s behind: %s",
                item.name,
                item.versions,
                lag,
                item.error_message or "no error yet",
                extra={
                    "table": item.name,
                    "table_id": item.table_id,
                    "attempt": item.retry_count,
                    **facts,
                },
            )
        (self._alerted.add if is_bad else self._alerted.discard)(item.table_id)

    def _tell(
        self,
        name: str,
        *,
        lag: float = 0.0,
        versions: int = 0,
        is_late: bool = False,
        is_failed: bool = False,
    ) -> None:
        has_drifted = name in self._drifted
        metrics.MIRROR_LAG_SECONDS.labels(name).set(lag)
        metrics.MIRROR_LAG_VERSIONS.labels(name).set(versions)
        metrics.MIRROR_LATE.labels(name).set(is_late)
        metrics.MIRROR_FAILED.labels(name).set(is_failed)
        metrics.MIRROR_DRIFT.labels(name).set(has_drifted)
        metrics.MIRROR_ALERT.labels(name).set(is_late or is_failed or has_drifted)
