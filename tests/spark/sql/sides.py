"""The two sides of a comparison: the same statements on a lake and on stock Delta."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException


@dataclass(frozen=True)
class Outcome:
    """What a statement came to: rows and their schema, or the condition of its error."""

    rows: list[str] | None = None
    schema: str | None = None
    condition: str | None = None


class Side:
    """Runs statements in which {t}, {u} are tables and {s} is their namespace."""

    def __init__(self, spark: Any, namespace: str) -> None:
        self.spark = spark
        self.namespace = namespace

    def names(self) -> dict[str, str]:
        """New tables for one case."""
        word = uuid.uuid4().hex[:10]
        return {
            "t": f"{self.namespace}.t_{word}",
            "u": f"{self.namespace}.u_{word}",
            "s": self.namespace,
            "word": word,
        }

    def run(self, statement: str, names: dict[str, str]) -> Outcome:
        try:
            frame = self.spark.sql(_filled(statement, names))
            return Outcome(sorted(repr(tuple(row)) for row in frame.collect()), _shape(frame))
        except Exception as error:
            condition = _condition(error)
            if condition is None:
                raise
            return Outcome(condition=condition)


class Lake(Side):
    def __init__(self, spark: Any, catalog: str) -> None:
        super().__init__(spark, f"{catalog}.s{uuid.uuid4().hex[:6]}")


class Stock(Side):
    def __init__(self, spark: Any) -> None:
        super().__init__(spark, "spark_catalog.default")


def _filled(text: str, names: dict[str, str]) -> str:
    # By hand: braces are part of SQL's own words, too.
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    return text


def _shape(frame: Any) -> str:
    return str(frame.schema.simpleString())


def _condition(error: BaseException) -> str | None:
    """Spark's name for what went wrong, however deep it is."""
    if isinstance(error, PySparkException) and error.getCondition():
        return str(error.getCondition())
    java = getattr(error, "java_exception", None)
    while java is not None:
        message = str(java.getMessage() or "")
        if message.startswith("["):
            return message[1:].partition("]")[0]
        java = java.getCause()
    return None
