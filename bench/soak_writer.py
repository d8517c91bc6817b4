"""One writer of the soak: appends and merges, each once, whatever is away meanwhile.

`python -m bench.soak_writer SLOT JOURNAL STOP`; the lake is the environment's. It ends when the
file STOP is there. The journal has a line for each acknowledged row: its table and its id.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import deltasql
from deltasql.errors import CommitError, StoreError

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
_MERGES = 0.15
_ROWS = 5


class Writer:
    """Has ids of its own, so that every row tells who wrote it."""

    def __init__(self, lake: deltasql.Lake, slot: int, journal: Path, stop: Path) -> None:
        self._lake, self._slot, self._stop = lake, slot, stop
        self._journal = journal.open("a", buffering=1)
        self._tables = [lake.table(name) for name in sorted(item.name for item in lake.tables())]
        self._random = random.Random(slot)
        self._count = 0
        self._last: dict[str, list[int]] = {}

    def run(self) -> None:
        while not self._stop.exists():
            table = self._random.choice(self._tables)
            ids = [self._slot * 10**9 + self._count * _ROWS + item for item in range(_ROWS)]
            self._count += 1
            if self._random.random() < _MERGES:
                # A row of ours gets another value, and the new ones come in.
                self._until_done(self._merge, table, [*self._last.get(table.name, [])[:1], *ids])
            else:
                self._until_done(self._append, table, ids)
            self._last[table.name] = ids
            self._journal.writelines(f"{table.name} {item}\n" for item in ids)
            time.sleep(0.02)

    def _until_done(
        self, do: Callable[[deltasql.Table, list[int]], None], table: deltasql.Table, ids: list[int]
    ) -> None:
        while True:
            try:
                do(table, ids)
                return
            except (StoreError, CommitError):
                # The database or the store is away, or others were faster: the same again.
                if self._stop.exists():
                    sys.exit(0)
                time.sleep(0.2)

    def _append(self, table: deltasql.Table, ids: list[int]) -> None:
        # The application's version makes a repetition harmless.
        table.append(_rows(ids, self._count), app_id=f"soak-{self._slot}", app_version=self._count)

    def _merge(self, table: deltasql.Table, ids: list[int]) -> None:
        merge = table.merge(_rows(ids, self._count), "target.id = source.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _rows(ids: list[int], value: int) -> pa.Table:
    return pa.table({"id": ids, "v": [value] * len(ids)}, schema=SCHEMA)


def main() -> None:
    slot, journal, stop = sys.argv[1:]
    with deltasql.connect() as lake:
        Writer(lake, int(slot), Path(journal), Path(stop)).run()


if __name__ == "__main__":
    main()
