"""Exact pruning: whether a file can have a matching row, by its partition values and stats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from deltasql.errors import LogFormatError
from deltasql.log.predicate_ast import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    columns,
    compare,
    like_matches,
    like_prefix,
    push_not,
    satisfies,
)
from deltasql.log.stats_columns import kind_of
from deltasql.log.stats_keys import (
    CUT_MICROS,
    bounds,
    dig,
    load_stats,
    low_float,
    null_count,
    record_count,
    stats_date,
    stats_instant,
    stats_wall_clock,
)
from deltasql.spec.partition_values import parse_value
from deltasql.spec.schema import Leaf, Primitive, StructType

# Digits that a double always gives back as they were written.
_SAFE_DIGITS = 15
_SLACK = Decimal("4e-15")
_WIDE = Context(prec=60)


class _Domain(NamedTuple):
    """What a column may hold in a file: None for an unknown bound."""

    low: Any = None
    high: Any = None
    may_be_null: bool = True
    may_be_value: bool = True

    @property
    def is_point(self) -> bool:
        return self.low is not None and self.high is not None and compare(self.low, self.high) == 0

    def reaches(self, value: Any) -> bool:
        return (self.low is None or compare(self.low, value) <= 0) and (
            self.high is None or compare(self.high, value) >= 0
        )


class _Source(NamedTuple):
    """A leaf of the schema, and how its bounds are read from stats."""

    leaf: Leaf
    low: _Reader
    high: _Reader


_Reader: TypeAlias = Callable[[Any], Any]
_UNKNOWN = _Domain()
_ONLY_NULL = _Domain(may_be_value=False)


class Pruner:
    """A predicate made ready to be asked about many files."""

    __slots__ = ("_predicate", "_sources")

    def __init__(self, bound_predicate: Predicate, schema: StructType) -> None:
        self._predicate = push_not(bound_predicate)
        used = columns(bound_predicate)
        leaves = [leaf for leaf in schema.leaves() if leaf.path in used]
        self._sources = [_Source(leaf, *_readers(leaf.type)) for leaf in leaves]

    def may_match(
        self, *, partition_values: Mapping[str, str | None], stats: str | None = None
    ) -> bool:
        """Never False for a file that has a matching row."""
        parsed: dict[str, Any] | None = None
        domains: dict[tuple[str, ...], _Domain] = {}
        for source in self._sources:
            leaf = source.leaf
            if leaf.physical_path[0] in partition_values:
                domains[leaf.path] = _partition_domain(partition_values, leaf)
            else:
                parsed = load_stats(stats) if parsed is None else parsed
                domains[leaf.path] = _stats_domain(parsed, source)
        return _may(self._predicate, domains)


def may_match(
    bound_predicate: Predicate,
    schema: StructType,
    *,
    partition_values: Mapping[str, str | None],
    stats: str | None,
) -> bool:
    """Whether a file may have a matching row; `Pruner` asks about many files faster."""
    pruner = Pruner(bound_predicate, schema)
    return pruner.may_match(partition_values=partition_values, stats=stats)


def matching_partitions(
    bound_predicate: Predicate,
    schema: StructType,
    partition_columns: Collection[str],
    partitions: Iterable[tuple[int, Mapping[str, str | None]]],
) -> list[int]:
    """The ids of the partitions whose values may satisfy the predicate."""
    pruner = Pruner(bound_predicate, schema)
    wanted = {name.lower() for name in partition_columns}
    names = {field.physical_name for field in schema.fields if field.name.lower() in wanted}
    return [
        identity
        for identity, values in partitions
        if pruner.may_match(
            partition_values={name: values[name] for name in names if name in values}
        )
    ]


def is_partition_only(predicate: Predicate, partition_columns: Collection[str]) -> bool:
    """Whether partition values alone decide the predicate."""
    wanted = {name.lower() for name in partition_columns}
    return all(len(path) == 1 and path[0].lower() in wanted for path in columns(predicate))


# --- domains --------------------------------------------------------------------------


def _partition_domain(values: Mapping[str, str | None], leaf: Leaf) -> _Domain:
    """One value for the whole file; text that can't be read keeps the file."""
    try:
        value = parse_value(values[leaf.physical_path[0]], leaf.type)
    except LogFormatError:
        return _UNKNOWN
    return _ONLY_NULL if value is None else _Domain(value, value, may_be_null=False)


def _stats_domain(parsed: dict[str, Any], source: _Source) -> _Domain:
    path = source.leaf.physical_path
    lows, highs, counts = bounds(parsed)
    low, high, records = dig(lows, path), dig(highs, path), record_count(parsed)
    nulls = null_count(dig(counts, path), records, empty=low is None and high is None)
    if nulls is not None and nulls == records:
        return _Domain(may_be_null=nulls > 0, may_be_value=False)
    return _Domain(source.low(low), source.high(high), may_be_null=nulls != 0)


def _readers(column_type: Primitive) -> tuple[_Reader, _Reader]:
    """What turns the stats' minimum and maximum into bounds that are sure to hold."""
    kind = kind_of(column_type)
    if kind != "number":
        return _READERS.get(kind or "", (_unknown, _unknown))
    precision, _ = column_type.decimal or (0, 0)
    exact = 0 < precision <= _SAFE_DIGITS
    low, high = (None, None) if exact else (_SLACK.copy_negate(), _SLACK)
    return partial(_number, slack=low), partial(_number, slack=high)


def _number(raw: Any, *, slack: Decimal | None) -> Any:
    """Integers as they are; of longer decimals the double has lost digits."""
    if type(raw) is int:
        return raw
    if type(raw) is not float:
        return None
    if slack is None:
        return Decimal(repr(raw))
    exact = Decimal(raw)
    return _WIDE.add(exact, _WIDE.multiply(exact.copy_abs(), slack))


def _unknown(_raw: Any) -> None:
    """For floats' maxima: NaN is greater than all, and writers may leave it out."""


def _text(raw: Any) -> Any:
    return raw if type(raw) is str else None


def _boolean(raw: Any) -> Any:
    return raw if type(raw) is bool else None


def _high_instant(raw: Any) -> datetime | None:
    return _last_of_milli(stats_instant(raw))


def _high_wall_clock(raw: Any) -> datetime | None:
    return _last_of_milli(stats_wall_clock(raw))


def _last_of_milli(cut: datetime | None) -> datetime | None:
    try:
        return None if cut is None else cut + timedelta(microseconds=CUT_MICROS)
    except OverflowError:
        return None


_READERS: dict[str, tuple[_Reader, _Reader]] = {
    "float": (low_float, _unknown),
    "text": (_text, _text),
    "boolean": (_boolean, _boolean),
    "date": (stats_date, stats_date),
    "timestamp": (stats_instant, _high_instant),
    "timestamp_ntz": (stats_wall_clock, _high_wall_clock),
}


# --- may it be true? ------------------------------------------------------------------


def _may(predicate: Predicate, domains: Mapping[tuple[str, ...], _Domain]) -> bool:
    match predicate:
        case And(parts):
            return all(_may(part, domains) for part in parts)
        case Or(parts):
            return any(_may(part, domains) for part in parts)
        case Constant(value):
            return bool(value)
        case Not(part):
            return _may_not(part, domains)
        case Comparison(operator, left, Literal(value)):
            return _may_compare(operator, value, domains.get(left.path, _UNKNOWN))
        case In(column) | Like(column) | IsNull(column):
            return _may_pass(predicate, domains.get(column.path, _UNKNOWN))
    return True


def _may_compare(operator: str, value: Any, domain: _Domain) -> bool:
    if not domain.may_be_value:
        return False
    match operator:
        case "=" | "<=>":
            return domain.reaches(value)
        case "<" | "<=":
            return domain.low is None or satisfies(operator, domain.low, value)
        case ">" | ">=":
            return domain.high is None or satisfies(operator, domain.high, value)
    return not domain.is_point or compare(domain.low, value) != 0


def _may_pass(test: In | Like | IsNull, domain: _Domain) -> bool:
    if isinstance(test, IsNull):
        return domain.may_be_null
    if not domain.may_be_value:
        return False
    if isinstance(test, In):
        return any(value is not None and domain.reaches(value) for value in test.values)
    if domain.is_point:
        return like_matches(test.pattern, domain.low)
    prefix, whole = like_prefix(test.pattern)
    if whole:
        return domain.reaches(prefix)
    return (domain.low is None or domain.low[: len(prefix)] <= prefix) and (
        domain.high is None or domain.high >= prefix
    )


def _may_not(test: Predicate, domains: Mapping[tuple[str, ...], _Domain]) -> bool:
    match test:
        case IsNull(column):
            return domains.get(column.path, _UNKNOWN).may_be_value
        case Comparison("<=>", left, Literal(value)):
            domain = domains.get(left.path, _UNKNOWN)
            return domain.may_be_null or _may_compare("<>", value, domain)
        case In(column, values):
            domain = domains.get(column.path, _UNKNOWN)
            # A null in the list leaves every miss unknown, so that NOT IN is never true.
            return None not in values and all(_may_compare("<>", v, domain) for v in values)
        case Like(column, pattern):
            domain = domains.get(column.path, _UNKNOWN)
            if not domain.is_point:
                return domain.may_be_value
            return not like_matches(pattern, domain.low)
    return True
