"""The two sides of a comparison: the same statements on a lake and on stock Delta."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

import deltasql
from deltasql.spec import codec
from deltasql.spec.actions import CommitInfo

_DESCRIBED = re.compile(r"SELECT (.*) FROM \((DESCRIBE .*)\)")


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
        self._unchanged: dict[Any, dict[str, str]] = {}

    def names(self) -> dict[str, str]:
        """New tables for one case."""
        word = uuid.uuid4().hex[:10]
        return {
            "t": f"{self.namespace}.t_{word}",
            "u": f"{self.namespace}.u_{word}",
            "s": self.namespace,
            "word": word,
        }

    @contextmanager
    def tables(self, setup: tuple[str, ...], key: Any) -> Iterator[dict[str, str]]:
        """Tables after a setup: new ones, or those that the last case of the key left as they were.

        Half of the time of all cases goes to setups, and many statements only read or are refused.
        """
        names = self._unchanged.pop((setup, key), None)
        if names is None:
            names = self.names()
            for statement in setup:
                made = self.run(statement, names)
                assert made.condition is None, (statement, made)
        before = [self._version(names[table]) for table in "tu"]
        yield names
        if key is not None and before == [self._version(names[table]) for table in "tu"]:
            self._unchanged[setup, key] = names

    def run(self, statement: str, names: dict[str, str]) -> Outcome:
        try:
            frame = self._frame(_filled(statement, names))
            return Outcome(sorted(repr(tuple(row)) for row in frame.collect()), _shape(frame))
        except Exception as error:
            condition = condition_of(error)
            if condition is None:
                raise
            return Outcome(condition=condition)

    def _frame(self, text: str) -> Any:
        """What a statement returns. Spark can't select from what is described: we do."""
        described = _DESCRIBED.fullmatch(text)
        if described is None:
            return self.spark.sql(text)
        return self.spark.sql(described[2]).selectExpr(*described[1].split(", "))

    def told(self, table: str) -> dict[str, Any] | None:
        """What the newest commit of a table says of itself, times left out; None without one."""
        info = self._commit_info(table)
        if info is None:
            return None
        metrics = info.get("operationMetrics") or {}
        left_out = ["TimeMs"]
        if info.get("operation") == "OPTIMIZE":
            # Rows in another order are packed into a file of another size.
            left_out += ["Bytes", "FileSize"]
        return {
            "operation": info.get("operation"),
            "metrics": {key: metrics[key] for key in metrics if not key.endswith(tuple(left_out))},
        }

    def _version(self, table: str) -> int | None:
        """The newest version of a table; None without one."""
        raise NotImplementedError

    def _commit_info(self, table: str) -> dict[str, Any] | None:
        raise NotImplementedError


class Lake(Side):
    def __init__(self, spark: Any, catalog: str, lake: deltasql.Lake) -> None:
        super().__init__(spark, f"{catalog}.s{uuid.uuid4().hex[:6]}")
        self._lake = lake

    def _version(self, table: str) -> int | None:
        name = table.partition(".")[2]
        return None if self._lake.store.table(name) is None else self._lake.table(name).version

    def _commit_info(self, table: str) -> dict[str, Any] | None:
        name, version = table.partition(".")[2], self._version(table)
        if version is None:
            return None
        actions = self._lake.table(name).changes(version)[0].actions
        info = next(item for item in actions if isinstance(item, CommitInfo))
        return codec.wire_fields(info)


class Stock(Side):
    def __init__(self, spark: Any) -> None:
        super().__init__(spark, "spark_catalog.default")
        self._warehouse = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")

    def _version(self, table: str) -> int | None:
        found = (int(path.stem) for path in self._log(table).glob("*[0-9].json"))
        return max(found, default=None)

    def _log(self, table: str) -> Path:
        return Path(self._warehouse) / table.rpartition(".")[2] / "_delta_log"

    def _commit_info(self, table: str) -> dict[str, Any] | None:
        version = self._version(table)
        if version is None:
            return None
        text = (self._log(table) / f"{version:020}.json").read_text()
        lines = (json.loads(line) for line in text.splitlines())
        return next(line["commitInfo"] for line in lines if "commitInfo" in line)


def _filled(text: str, names: dict[str, str]) -> str:
    # By hand: braces are part of SQL's own words, too.
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    return text


def _shape(frame: Any) -> str:
    return str(frame.schema.simpleString())


def condition_of(error: BaseException) -> str | None:
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
