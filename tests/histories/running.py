"""Runs a history: two tables, several writers at once, and all judges at the end."""

from __future__ import annotations

import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import deltasql
from tests.histories.judge import judge, judge_feed
from tests.histories.model import Rows
from tests.histories.writers import SCHEMA, Told, Writer, rows_in
from tests.readers.engines import DeltaRs, DuckDb, place

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
PROPERTIES = (
    {}, VECTORS, VECTORS, TRACKED, FEED, VECTORS | TRACKED, VECTORS | FEED, VECTORS | MAPPED,
    VECTORS | TRACKED | FEED,
)  # fmt: skip
SERIALIZABLE = {"delta.isolationLevel": "Serializable"}
# One letter for each time that a kind of operation is among the choices (see `Writer.step`).
KINDS = "aaAddduummmooORtttzrs"
WRITERS = 4


@dataclass
class Summary:
    """What came of a history."""

    outcomes: Counter[str] = field(default_factory=Counter)
    # Commits that others had overtaken, and that were made all the same.
    overtaken: int = 0


class History:
    """Two tables and their writers."""

    def __init__(self, url: str, location: str, seed: int, *, plain_url: str = "") -> None:
        """`plain_url` is the same database without what cuts connections."""
        self._url, self._location, self._seed = url, location, seed
        self._rng = random.Random(seed)
        self._settings = {
            "mirror.mode": self._rng.choice(("async", "sync")),
            "sql.timeout": "20s",
            "sql.pool_size": 3,
        }
        self.lake = deltasql.connect(plain_url or url, location=location, settings=self._settings)
        self.names = (f"h{seed}.a", f"h{seed}.b")
        self._is_serializable = {name: self._rng.random() < 0.4 for name in self.names}
        for name, strict in self._is_serializable.items():
            self.lake.create_table(
                name,
                SCHEMA,
                partition_by=["p"] if self._rng.random() < 0.5 else [],
                properties=self._rng.choice(PROPERTIES) | (SERIALIZABLE if strict else {}),
            )

    def run(
        self,
        steps: int,
        *,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> Summary:
        """Let the writers do so many steps each, and judge what they did."""
        shared = self._url.startswith("duckdb")
        lakes = [self.lake if shared else self._connect() for _ in range(WRITERS)]
        writers = [
            Writer(lake, number, self._seed, self.names, kinds=KINDS)
            for number, lake in enumerate(lakes)
        ]
        errors: list[str] = []

        def work(writer: Writer) -> None:
            try:
                for _ in range(steps):
                    writer.step()
            except Exception:  # noqa: BLE001 - told by the test
                last = writer.told[-1] if writer.told else None
                errors.append(f"{last}: {traceback.format_exc()}")

        threads = [threading.Thread(target=work, args=(writer,)) for writer in writers]
        before()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after()
        assert not errors, errors[0]
        summary = self.judge(
            [item for writer in writers for item in writer.told],
            [item for writer in writers for item in writer.seen],
        )
        for lake in lakes:
            lake.close()
        return summary

    def _connect(self) -> deltasql.Lake:
        return deltasql.connect(self._url, location=self._location, settings=self._settings)

    def judge(self, told: list[Told], seen: list[tuple[str, int, Rows]]) -> Summary:
        """By each version, by the feed, by the log itself, by its mirror and its readers."""
        summary = Summary(Counter(item.outcome for item in told))
        for name in self.names:
            strict = self._is_serializable[name]
            summary.overtaken += judge(self.lake, name, told, seen=seen, serializable=strict)
            judge_feed(self.lake.table(name))
        self.lake.mirror.run(once=True)
        assert self.lake.check().ok
        for name in self.names:
            table = self.lake.table(name)
            report = table.mirror.validate()
            assert report.ok, report
            rows = rows_in(table.scan().to_arrow())
            for reader in _readers_of(table):
                found = rows_in(reader.rows(place(table), table.version))
                assert found == rows, type(reader).__name__
        return summary

    def close(self) -> None:
        self.lake.close()


def _readers_of(table: deltasql.Table) -> list[DeltaRs | DuckDb]:
    """Of mapped partition columns DuckDB knows nothing (docs/readers.md)."""
    state = table.snapshot().state
    is_odd = state.column_mapping != "none" and bool(state.partition_columns)
    return [DeltaRs()] if is_odd else [DeltaRs(), DuckDb()]
