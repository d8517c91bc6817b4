"""Commits that fail at a chosen point, once, and what has to be true afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import deltasql
from deltasql.errors import DatabaseError, StoreTimeoutError
from deltasql.lake import new_table, writing

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{i}" for i in ids], **more})


class Faults:
    """Breaks one lake at a point, from `arm` on."""

    def __init__(self, lake: deltasql.Lake, point: str) -> None:
        self.lake = lake
        self.point = point
        for table in lake.tables():
            lake.objects(table.location)
        self.was_committed = False
        self._is_armed = False
        store = lake.store
        names = ("commit", "create_table", "finish_history", "locked")
        self._real = {name: getattr(store, name) for name in names}

    def arm(self) -> None:
        """From now on, until it has struck."""
        store = self.lake.store
        self._is_armed = True
        store.commit = self._broken("commit")
        store.create_table = self._broken("create_table")
        store.finish_history = self._broken("finish_history")
        store.locked = self._locked

    def heal(self) -> None:
        """Nothing is broken any more."""
        self._is_armed = False
        for name in (*self._real, "state", "head", "table"):
            self.lake.store.__dict__.pop(name, None)

    def _fails(self, error: Exception) -> Callable[..., Any]:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        return fail

    def _broken(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self._strike_before()
            answer = self._real[name](*arguments, **options)
            self._strike_after()
            return answer

        return call

    @contextmanager
    def _locked(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        self._strike_before()
        with self._real["locked"](*arguments, **options) as log:
            yield log
        self._strike_after()

    def _strike_before(self) -> None:
        if not self._is_armed:
            if self.point == "lost for good" and self.was_committed:
                raise DatabaseError("injected: the database is away")
            return
        if self.point == "before":
            self._is_armed = False
            raise DatabaseError("injected: not sent")
        if self.point == "refused":
            self._is_armed = False
            raise StoreTimeoutError("injected: no lock in time", is_refusal=True)

    def _strike_after(self) -> None:
        if not self._is_armed:
            return
        self._is_armed = False
        self.was_committed = True
        if self.point in ("after", "lost for good"):
            error = DatabaseError("injected: the database is away")
            self.lake.store.state = self._fails(error)
            self.lake.store.table = self._fails(error)
        if self.point in ("lost", "lost for good"):
            raise DatabaseError("injected: the answer is lost")


def _transaction(lake: deltasql.Lake) -> None:
    with lake.transaction() as tx:
        tx.table("t").append(rows(2))
        tx.table("other").append(rows(2))


def _with_rows(lake: deltasql.Lake) -> object:
    """CREATE TABLE AS, without Spark: rows written first, then their table created."""
    place = lake.place("new")
    actions = new_table.version_zero(SCHEMA, (), None)
    files = writing.write_rows(lake.objects(place), actions[1], rows(2))
    return lake.create_with(
        "new",
        place,
        [*actions, *files],
        operation="CREATE TABLE AS SELECT",
        operation_params={},
        files=files,
    )


# Each writes files, and then commits them.
VERBS: dict[str, Callable[[deltasql.Lake], object]] = {
    "append": lambda lake: lake.table("t").append(rows(2)),
    "overwrite": lambda lake: lake.table("t").overwrite(rows(2)),
    "transaction": _transaction,
    "create with rows": _with_rows,
}
