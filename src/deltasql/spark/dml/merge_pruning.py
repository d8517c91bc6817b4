"""Which files of the target a merge can touch, by its condition and the source's keys.

Conjuncts on the target alone skip files directly. An equality between a column of the target and an
expression of the source skips everything outside the source's values: this takes one pass over the
source, which costs less than reading the target's other partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from deltasql.log.predicates import predicate as logic
from deltasql.log.predicates.predicate import (
    And,
    Comparison,
    Constant,
    In,
    Literal,
    Predicate,
    bind,
)
from deltasql.log.state import TableState
from deltasql.spark.dml.assignments import name_parts
from deltasql.spark.native.gateway import Gateway
from deltasql.spark.native.reading import Reader
from deltasql.spec.schema import Primitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Types that Spark and the database's stats order the same way.
_ORDERED = frozenset({"byte", "short", "integer", "long", "string", "date"})
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_SPARK_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "string": "string",
    "date": "date",
}
_EPOCH = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _EPOCH).days, (date.max - _EPOCH).days
# More values of a partition column than this are replaced by their range.
_MOST_VALUES = 500
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|(`(?:[^`]|``)+`|[A-Za-z_]\w*)(\s*\.)?")


@dataclass(frozen=True, slots=True)
class Reach:
    """The rows of the target that a source can match; no predicate if nothing is known."""

    predicate: Predicate | None
    # Whether the source concerns one partition only.
    is_one_partition: bool = False
    # How many rows the source has, if that was computed on the way.
    source_rows: int | None = None


class MergePruning:
    """The rows of a target that a source can match."""

    def __init__(
        self, gateway: Gateway, reader: Reader, state: TableState, *, target: str, source: str
    ) -> None:
        self._gateway = gateway
        self._reader = reader
        self._state = state
        self._target = target
        self._source = source

    def reach(self, condition: str, rows: DataFrame) -> Reach:
        """What is known about the matching rows of the target."""
        own = [
            text
            for text in (self._own(part) for part in self._gateway.conjuncts(condition))
            if text is not None
        ]
        found = self._reader.understood(own, self._state)
        keys, count = self._keys(self._pairs(condition), rows)
        known = bind(And(tuple(keys.values())), self._state.schema) if keys else None
        parts = tuple(part for part in (found, known) if part is not None)
        predicate = And(parts) if len(parts) > 1 else parts[0] if parts else None
        single = {name.lower() for name, part in keys.items() if _is_one_value(part)}
        names = {name.lower() for name in self._state.partition_columns}
        one = bool(names) and names <= single
        return Reach(predicate, is_one_partition=one, source_rows=count)

    # --- the condition itself -----------------------------------------------------------

    def _own(self, text: str) -> str | None:
        """A conjunct in terms of the target alone; None if it mentions the source."""
        return None if self._speaks_of(text, self._source) else self._bare(text, self._target)

    def _speaks_of(self, text: str, alias: str) -> bool:
        return any(_is_alias(match, alias) for match in _TOKEN.finditer(text))

    def _bare(self, text: str, alias: str) -> str:
        return _TOKEN.sub(lambda match: "" if _is_alias(match, alias) else match[0], text)

    def _pairs(self, condition: str) -> Iterator[tuple[str, str]]:
        """Columns of the target, and the source expressions that they equal."""
        for left, right in self._gateway.equalities(condition):
            for mine, theirs in ((left, right), (right, left)):
                if self._speaks_of(mine, self._target) and not self._speaks_of(
                    theirs, self._target
                ):
                    parts = name_parts(self._bare(mine, self._target))
                    if len(parts) == 1 and self._speaks_of(theirs, self._source):
                        yield parts[0], theirs
                        break

    # --- the source's keys --------------------------------------------------------------

    def _keys(
        self, pairs: Iterator[tuple[str, str]], rows: DataFrame
    ) -> tuple[dict[str, Predicate], int | None]:
        """The possible values of each key, and the number of rows."""
        from pyspark.sql import functions as sql

        usable = {name: text for name, text in pairs if self._is_exact(name, text, rows)}
        if not usable:
            return {}, None
        partitions = {name.lower() for name in self._state.partition_columns}
        wanted: list[Any] = [sql.count(sql.lit(1))]
        days = {name for name in usable if self._is_date(name)}
        for name, text in usable.items():
            # Python's dates cover the years 1 to 9999 only, Spark's many more.
            value = sql.unix_date(sql.expr(text)) if name in days else sql.expr(text)
            wanted += [sql.min(value), sql.max(value)]
            if name.lower() in partitions:
                wanted.append(_few(value))
        count, *answer = rows.agg(*wanted).collect()[0]
        parts: dict[str, Predicate] = {}
        for name in usable:
            low, high = answer.pop(0), answer.pop(0)
            values = answer.pop(0) if name.lower() in partitions else None
            if name not in days:
                parts[name] = _within(name, low, high, values)
            elif (within := _within_days(name, low, high, values)) is not None:
                parts[name] = within
        return parts, int(count)

    def _is_date(self, name: str) -> bool:
        field = self._state.schema.field(name)
        return field is not None and field.type == Primitive("date")

    def _is_exact(self, name: str, text: str, rows: DataFrame) -> bool:
        """Whether Spark compares the two without a cast that changes their order."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as sql

        field = self._state.schema.field(name)
        if field is None or not isinstance(field.type, Primitive):
            return False
        want = field.type.name
        if want not in _ORDERED or "__CHAR_VARCHAR_TYPE_STRING" in field.metadata:
            return False
        try:
            have = rows.select(sql.expr(text)).schema.fields[0].dataType.simpleString()
        except AnalysisException:
            return False
        mine = _SPARK_NAMES[want]
        return have == mine or {have, mine} <= _INTEGERS


def _is_alias(match: re.Match[str], alias: str) -> bool:
    """Whether a name is a table's: the first of several parts, followed by a column's name."""
    if not match[1] or not match[2] or match.string[: match.start()].rstrip().endswith("."):
        return False
    return name_parts(match[1])[0].lower() == alias.lower()


def _is_one_value(part: Predicate) -> bool:
    return isinstance(part, In) and len(part.values) == 1


def _few(value: Any) -> Any:
    """All values, if there are few."""
    from pyspark.sql import functions as sql

    gathered = sql.collect_set(value)
    return sql.when(sql.size(gathered) <= _MOST_VALUES, gathered)


def _within(name: str, low: Any, high: Any, values: Sequence[Any] | None) -> Predicate:
    column = logic.Column((name,))
    if low is None:
        # Null equals nothing: no row of the target matches.
        return Constant(value=False)
    if values is not None:
        return In(column, tuple(values))
    return And((Comparison(">=", column, Literal(low)), Comparison("<=", column, Literal(high))))


def _within_days(
    name: str, low: int | None, high: int | None, values: Sequence[int] | None
) -> Predicate | None:
    """The same for days since 1970; None if Python's range of years can't express them."""
    if low is None or high is None:
        return Constant(value=False)
    if values is not None and all(_FIRST_DAY <= day <= _LAST_DAY for day in values):
        return In(logic.Column((name,)), tuple(_date(day) for day in values))
    parts: list[Predicate] = []
    if _FIRST_DAY <= low <= _LAST_DAY:
        parts.append(Comparison(">=", logic.Column((name,)), Literal(_date(low))))
    if _FIRST_DAY <= high <= _LAST_DAY:
        parts.append(Comparison("<=", logic.Column((name,)), Literal(_date(high))))
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def _date(days: int) -> date:
    return _EPOCH + timedelta(days=days)
