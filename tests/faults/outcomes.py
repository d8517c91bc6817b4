"""Commits that fail at a chosen point, once, and what has to be true afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import deltasql
from deltasql.errors import (
    CommitStateUnknownError,
    DatabaseError,
    MirrorError,
    StoreError,
    StoreTimeoutError,
)

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
# Where a commit fails: on its way, on the way back, in our own code afterwards, or when nothing
# is left to do but to clean up.
POINTS = ("before", "lost", "lost for good", "after", "mirror", "discard")


def rows(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{i}" for i in ids], **more})


class Undeletable:
    """An object store that fails to delete."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, paths: Any) -> None:
        raise StoreError("injected: no delete", paths=list(paths))


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
        if self.point == "mirror":
            self.lake.engine.after_commit = self._fails(MirrorError("injected: no mirror"))
        if self.point == "discard":
            known = self.lake._objects
            known.update({place: Undeletable(store) for place, store in known.items()})

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
    def _locked(self, *arguments: Any) -> Iterator[Any]:
        self._strike_before()
        with self._real["locked"](*arguments) as log:
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
        if self.point in ("discard", "refused"):
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


class Verb:
    """One way to commit: what is there before, what it does, and what is there then."""

    def __init__(
        self,
        run: Callable[[deltasql.Lake], object],
        before: tuple[int, ...],
        then: tuple[int, ...],
        name: str = "t",
        prepare: Callable[[deltasql.Lake], object] | None = None,
    ) -> None:
        self.run = run
        self.prepare = prepare
        self.before = before
        self.then = then
        self.name = name


def _transaction(lake: deltasql.Lake) -> None:
    with lake.transaction() as tx:
        tx.table("t").append(rows(2))
        tx.table("other").append(rows(2))


def _with_rows(lake: deltasql.Lake) -> object:
    """CREATE TABLE AS, without Spark: rows written first, then their table created."""
    from deltasql import creating, writing

    actions = creating.version_zero(SCHEMA, (), None)
    place = lake.place("new")
    files = writing.write_rows(lake.objects(place), actions[1], rows(2))
    details = {"operation": "CREATE TABLE AS SELECT", "operation_params": {}}
    try:
        return lake.create_with("new", place, [*actions, *files], files=files, **details)
    except TypeError:  # as it was: the caller discarded
        return _discarding(lake, place, [*actions, *files], files, details)


def _discarding(lake: deltasql.Lake, place: str, actions: Any, files: Any, details: Any) -> object:
    from deltasql.data import writer

    try:
        return lake.create_with("new", place, actions, **details)
    except CommitStateUnknownError:
        raise
    except deltasql.DeltaSqlError:
        writer.discard(lake.objects(place), files)
        raise


VERBS = {
    "append": Verb(lambda lake: lake.table("t").append(rows(2)), (1,), (1, 2)),
    "append that merges": Verb(
        lambda lake: lake.table("t").append(rows(2, w=[1]), schema_mode="merge"), (1,), (1, 2)
    ),
    "overwrite": Verb(lambda lake: lake.table("t").overwrite(rows(2)), (1,), (2,)),
    "overwrite where": Verb(
        lambda lake: lake.table("t").overwrite(rows(1, 1), where="id = 1"), (1,), (1, 1)
    ),
    "commit": Verb(
        lambda lake: lake.table("t").commit(
            [_described(lake.table("t"))], operation="SET TBLPROPERTIES"
        ),
        (1,),
        (1,),
    ),
    "transaction": Verb(_transaction, (1,), (1, 2)),
    "create": Verb(lambda lake: lake.create_table("new", SCHEMA), (), (), "new"),
    "create with rows": Verb(_with_rows, (), (2,), "new"),
    "release": Verb(lambda lake: lake.table("t").release(), (1,), (1,)),
    "adopt": Verb(
        lambda lake: lake.adopt(lake.table("t").location, "t", validate=False),
        (1,),
        (1,),
        prepare=lambda lake: lake.table("t").release(),
    ),
}


def _described(table: deltasql.Table) -> Any:
    from dataclasses import replace

    return replace(table.snapshot().metadata, description="changed")
