"""Open transactions: statements of Spark SQL can't take part in them yet.

A local property of Spark's says so: it follows the thread of a block into the driver, and into the
threads that are started there for its statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltasql.errors import ValidationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Known to SqlTransaction.java, too.
PROPERTY = "deltasql.transaction"


def enter(spark: SparkSession) -> None:
    """A transaction begins on this thread."""
    spark.sparkContext.setLocalProperty(PROPERTY, "open")


def leave(spark: SparkSession) -> None:
    """It has ended."""
    # Null takes a property away, which PySpark's types don't know.
    nothing: Any = None
    spark.sparkContext.setLocalProperty(PROPERTY, nothing)


def must_be_outside(question: Mapping[str, Any]) -> None:
    """Raise `ValidationError` inside a transaction: the statement would commit by itself."""
    if question.get("transaction"):
        raise ValidationError(
            "a statement of Spark SQL can't be part of a transaction",
            cause="inside `with db.transaction()` it would commit at once, whatever becomes of "
            "the transaction",
            remedy="use tx.write, tx.table(…).merge and their like, or run it outside of the block",
        )
