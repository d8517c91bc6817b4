"""Open transactions, and the threads that are in them.

A Spark local property names the transaction of `with db.transaction()`: it follows the block's
thread into the driver, and into the threads started there for its statements. A transaction begun
in SQL belongs to its session (Blocks.java).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from deltasql.errors import ValidationError
from deltasql.spark.catalog.staging import Block, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasql.lake.catalog import Lake
    from deltasql.lake.transaction import Transaction

# Blocks.java uses this name, too.
PROPERTY = "deltasql.transaction"
# Catalog requests that no transaction may make, named as in SQL.
_REFUSED = {
    "drop": "DROP TABLE",
    "rename": "ALTER TABLE RENAME",
    "drop_feature": "ALTER TABLE",
    "create_namespace": "CREATE NAMESPACE",
    "alter_namespace": "ALTER NAMESPACE",
    "drop_namespace": "DROP NAMESPACE",
}
# For all lakes of this process.
_open: dict[str, Block] = {}


def begin(lake: Lake, transaction: Transaction) -> Block:
    """Open a transaction to participants."""
    block = _open[transaction.id] = Block(lake, transaction)
    return block


def end(spark: SparkSession | None, block: Block) -> None:
    """End it: anything that is asked of it from now on is refused."""
    _open.pop(block.id, None)
    block.close()
    if spark is not None:
        # The session may have ended before.
        with suppress(Exception):
            _classes(spark).ended(block.id)


class PlainTransaction:
    """A transaction of a lake that only runs statements, without PySpark frames."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._inner = lake.transaction()
        self._block: Block | None = None

    @property
    def versions(self) -> Mapping[str, int]:
        """The version that each changed table got."""
        return self._inner.versions

    def begin(self) -> Block:
        """Open it."""
        self._inner.__enter__()
        self._block = begin(self._lake, self._inner)
        return self._block

    def end(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Commit it, or discard it if there is an error."""
        if self._block is not None:
            end(None, self._block)
        self._inner.__exit__(kind, error, trace)


def enter(spark: SparkSession, block: Block) -> None:
    """Put this thread into the transaction."""
    thread = cast("Any", spark._jvm).java.lang.Thread.currentThread().getId()
    spark.sparkContext.setLocalProperty(PROPERTY, f"{block.id} {thread}")


def leave(spark: SparkSession) -> None:
    """Take this thread out of it."""
    # Null removes a property, which PySpark's types don't allow for.
    nothing: Any = None
    spark.sparkContext.setLocalProperty(PROPERTY, nothing)


def must_be_outside(spark: SparkSession, lake: Lake, *, is_attached: bool) -> None:
    """Raise `ValidationError` if this thread is already in a transaction of the lake."""
    said = spark.sparkContext.getLocalProperty(PROPERTY)
    found = said.split(" ")[0] if said else None
    if found is None and is_attached:
        found = _classes(spark).ofSession(spark._jsparkSession)
    block = _open.get(found) if found else None
    if block is not None and block.lake is lake:
        raise nested()


def nested() -> ValidationError:
    """The error for beginning a second one."""
    return ValidationError(
        "a transaction can't begin inside another one",
        cause="it would be unclear which of them a statement belongs to",
        remedy="end the other one first, or use one transaction for both",
    )


def of(question: Mapping[str, Any], lake: Lake) -> Block | None:
    """The transaction that a question comes from; None outside of one, and for another lake's."""
    name = question.get("block")
    if name is None:
        return None
    block = _open.get(name)
    if block is None:
        raise ValidationError(
            "the transaction has ended",
            cause="the table was opened inside of it, and shows what it saw",
            remedy="open the table again: spark.table(…), DeltaTable.forName(…)",
        )
    return block if block.lake is lake else None


def check(question: Mapping[str, Any], lake: Lake) -> None:
    """Raise `ValidationError` for what can't be part of a transaction; nothing has been written."""
    if question.get("block") is None:
        return
    verb = question["verb"]
    block = of(question, lake)
    if verb in _REFUSED and block is not None:
        raise refused(_REFUSED[verb])
    if block is None and (verb in _REFUSED or verb in ("place", "commit", "write")):
        raise ValidationError(
            "a transaction can't write to two lakes",
            cause="the statement's table is in a different lake from the transaction",
            remedy="run it outside of the transaction",
        )


def _classes(spark: SparkSession) -> Any:
    return cast("Any", spark._jvm).io.deltasql.spark.Blocks
