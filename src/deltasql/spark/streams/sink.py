"""Micro-batches into tables, each exactly once: `foreachBatch(db.sink(…))`.

The batch's number is the txn version of the stream's own application id, in the same commit as its
rows. A batch that Spark sends again after a crash is recognised by it and skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from deltasql.errors import ValidationError
from deltasql.spark.native import evolution
from deltasql.spark.native.modes import schema_of
from deltasql.spark.transactions import AlreadyHappened, SparkTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltasql.spark.database import Database

Shape: TypeAlias = "Callable[[DataFrame], DataFrame] | None"
Batch: TypeAlias = "Callable[[DataFrame, int], None]"
Function: TypeAlias = "Callable[[SparkTransaction, DataFrame, int], None]"
_QUERY_ID = "sql.streaming.queryId"


def sink(
    database: Database,
    target: str | Mapping[str, Shape] | Function,
    app_id: str | None,
    options: Mapping[str, Any],
) -> Batch:
    """The function for `foreachBatch` (see `Database.sink`)."""
    if isinstance(target, str):
        return _one(database, target, app_id, options)
    if isinstance(target, Mapping):
        return _several(database, target, app_id, options)
    function = target

    def run(frame: DataFrame, batch: int) -> None:
        _transact(database, _app(frame, app_id), batch, lambda tx: function(tx, frame, batch))

    return run


def _one(database: Database, name: str, app_id: str | None, options: Mapping[str, Any]) -> Batch:
    seen: dict[str, int] = {}

    def run(frame: DataFrame, batch: int) -> None:
        app = _app(frame, app_id)
        if app not in seen:
            # Only the first batch after a start can be one that was already written.
            record = database.lake.store.table(name)
            txns = {} if record is None else database.lake.table(name).base().txns
            seen[app] = txns.get(app, -1)
        if batch > seen[app]:
            database.write(frame, name, app_id=app, app_version=batch, **options)

    return run


def _several(
    database: Database,
    shapes: Mapping[str, Shape],
    app_id: str | None,
    options: Mapping[str, Any],
) -> Batch:
    def run(frame: DataFrame, batch: int) -> None:
        app = _app(frame, app_id)
        frame.persist()
        try:
            frames = {
                name: frame if shape is None else shape(frame) for name, shape in shapes.items()
            }
            for name, rows in frames.items():
                if database.lake.store.table(name) is None:
                    _create(database, name, rows, options)

            def write(tx: SparkTransaction) -> None:
                for name, rows in frames.items():
                    tx.write(rows, name, **_without_creation(options))

            _transact(database, app, batch, write)
        finally:
            frame.unpersist()

    return run


def _transact(
    database: Database, app: str, batch: int, run: Callable[[SparkTransaction], None]
) -> None:
    try:
        with database.transaction(app_id=app, app_version=batch) as tx:
            tx.stops_early = True
            run(tx)
    except AlreadyHappened:
        return


def _create(database: Database, name: str, rows: DataFrame, options: Mapping[str, Any]) -> None:
    names = options.get("partition_by") or ()
    database.lake.create_table(
        name,
        evolution.as_new(schema_of(rows)),
        partition_by=(names,) if isinstance(names, str) else tuple(names),
        properties=options.get("properties"),
        exists_ok=True,
    )


def _without_creation(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in options.items() if key not in ("partition_by", "properties")
    }


def _app(frame: DataFrame, given: str | None) -> str:
    """The stream's own id, which it keeps in its checkpoint."""
    if given is not None:
        return given
    context = getattr(frame.sparkSession, "sparkContext", None)
    found = context.getLocalProperty(_QUERY_ID) if context is not None else None
    if not found:
        raise ValidationError(
            "the sink does not know which stream it belongs to",
            cause="it was called outside of foreachBatch, or over Spark Connect",
            remedy="name the stream: db.sink(…, app_id=…)",
        )
    return str(found)
