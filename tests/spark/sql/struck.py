"""The statements of Spark SQL that write, for the fault matrix: each from the same two tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException

import deltasql.spark
from tests.faults.matrix.outcomes import Answer, Told
from tests.faults.matrix.verbs import Place
from tests.spark.sql.sides import condition_of

CATALOG = "struck"
INSERT = "INSERT INTO {a} VALUES (3, 'x')"
DELETE = "DELETE FROM {b} WHERE id = 1"

_TOLD = {
    "DELTASQL_COMMIT_STATE_UNKNOWN": Told.UNKNOWN,
    "DELTASQL_ANSWER_LOST": Told.UNKNOWN,
    "DELTASQL_FAILED_AFTER_COMMIT": Told.DONE,
}


@dataclass(frozen=True)
class Statement:
    """What runs, and what the tables hold when it is done."""

    run: Callable[[Session], None]
    after: dict[str, Sequence[int]] = field(default_factory=dict)
    # Of what no rows tell.
    has_happened: Callable[[Place], bool] | None = None


class Session:
    """A case's lake as a catalog of the shared session."""

    def __init__(self, spark: Any, place: Place) -> None:
        self.spark = spark
        self.place = place
        self.db = deltasql.spark.attach(spark, place.lake, catalog=CATALOG)

    def sql(self, text: str) -> None:
        names = {short: f"{CATALOG}.{self.place.name(short)}" for short in ("a", "b", "new")}
        self.spark.sql(text.format(**names))

    def block(self) -> None:
        with self.db.transaction():
            self.sql(INSERT)
            self.sql(DELETE)

    def calls(self) -> None:
        self.sql(f"CALL {CATALOG}.system.begin()")
        try:
            self.sql(INSERT)
            self.sql(DELETE)
        except Exception:
            with suppress(PySparkException):
                self.sql(f"CALL {CATALOG}.system.rollback()")
            raise
        self.sql(f"CALL {CATALOG}.system.commit()")

    def insert_beside_memory(self) -> None:
        """After the commit Spark reads anew what it keeps of the table."""
        kept = self.spark.table(f"{CATALOG}.{self.place.name('a')}").cache()
        kept.count()
        try:
            self.sql(INSERT)
        finally:
            self.spark.catalog.clearCache()


def _statement(text: str, **after: Sequence[int]) -> Statement:
    return Statement(lambda session: session.sql(text), after)


STATEMENTS = {
    "create": _statement("CREATE TABLE {new} (id BIGINT, p STRING)", new=()),
    "create as": _statement("CREATE TABLE {new} AS SELECT 3L AS id, 'x' AS p", new=(3,)),
    "create or replace": _statement(
        "CREATE OR REPLACE TABLE {a} AS SELECT 3L AS id, 'x' AS p", a=(3,)
    ),
    "insert": _statement(INSERT, a=(1, 2, 3)),
    "insert beside memory": Statement(Session.insert_beside_memory, {"a": (1, 2, 3)}),
    "insert overwrite": _statement("INSERT OVERWRITE {a} VALUES (3, 'x')", a=(3,)),
    "merge": _statement(
        "MERGE INTO {a} t USING (SELECT id, 'x' AS p FROM range(2, 4)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        a=(1, 3),
    ),
    "update": _statement("UPDATE {a} SET id = 5 WHERE id = 1", a=(2, 5)),
    "delete": _statement("DELETE FROM {a} WHERE id = 1", a=(2,)),
    "alter": Statement(
        lambda session: session.sql("ALTER TABLE {a} ADD COLUMN n INT"),
        has_happened=lambda place: "n" in place.table("a").snapshot().schema.names,
    ),
    "restore": _statement("RESTORE TABLE {a} TO VERSION AS OF 0", a=()),
    "clone": _statement("CREATE TABLE {new} SHALLOW CLONE {a}", new=(1, 2)),
    "transaction": Statement(Session.block, {"a": (1, 2, 3), "b": (2,)}),
    "transaction in SQL": Statement(Session.calls, {"a": (1, 2, 3), "b": (2,)}),
}


def answer_of(call: Callable[[], Any]) -> Answer:
    """What the caller learned; an error that is neither ours nor Spark's says nothing."""
    try:
        return Answer.of(call)
    except Exception as error:
        condition = condition_of(error)
        if condition is None:
            raise
        return Answer(_TOLD.get(condition, Told.REFUSED), error)
