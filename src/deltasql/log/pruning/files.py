"""Exact pruning: what a predicate says about a file's rows, by its partition values and stats.

Of a file's rows none, some or certainly all may match. Only partition values can say "all": they
are what the rows hold, while stats are what some writer said about them. Stats only rule files out,
which costs an answer if they are wrong; nothing is deleted because of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

from deltasql.log.domains import UNKNOWN, Domain, Source, partition_domain, stats_domain
from deltasql.log.predicates.ast import (
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
from deltasql.log.pruning.stats_keys import load_stats
from deltasql.spec.schema import StructType

_Domains = Mapping[tuple[str, ...], Domain]


class Match(Enum):
    """How many of a file's rows satisfy a predicate; a row for which it is null does not."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


class Pruner:
    """A predicate prepared for checking many files.

    A file's partition values count for the `partition_columns` alone: what else a foreign writer
    put there, readers don't look at.
    """

    __slots__ = ("_partitioned", "_predicate", "_sources")

    def __init__(
        self, bound_predicate: Predicate, schema: StructType, partition_columns: Collection[str]
    ) -> None:
        self._predicate = push_not(bound_predicate)
        used = columns(bound_predicate)
        self._sources = [Source.of(leaf) for leaf in schema.leaves() if leaf.path in used]
        wanted = {name.lower() for name in partition_columns}
        self._partitioned = [
            source
            for source in self._sources
            if len(source.leaf.path) == 1 and source.leaf.path[0].lower() in wanted
        ]

    def may_match(
        self, *, partition_values: Mapping[str, str | None], stats: str | None = None
    ) -> bool:
        """Whether a file may have a matching row; never False for one that has."""
        domains = self._partition_domains(partition_values)
        parsed: dict[str, Any] | None = None
        for source in self._sources:
            if source.leaf.path not in domains:
                parsed = load_stats(stats) if parsed is None else parsed
                domains[source.leaf.path] = stats_domain(parsed, source)
        return _may(self._predicate, domains)

    def match(
        self, *, partition_values: Mapping[str, str | None], stats: str | None = None
    ) -> Match:
        """`NONE` and `ALL` are certain; `SOME` means that the rows must be read."""
        if _surely(self._predicate, self._partition_domains(partition_values)):
            return Match.ALL
        if self.may_match(partition_values=partition_values, stats=stats):
            return Match.SOME
        return Match.NONE

    def _partition_domains(
        self, partition_values: Mapping[str, str | None]
    ) -> dict[tuple[str, ...], Domain]:
        return {
            source.leaf.path: partition_domain(partition_values, source.leaf)
            for source in self._partitioned
            if source.leaf.physical_path[0] in partition_values
        }


def may_match(
    bound_predicate: Predicate,
    schema: StructType,
    *,
    partition_values: Mapping[str, str | None],
    stats: str | None,
) -> bool:
    """Whether a file may have a matching row, if it has only the values of partition columns."""
    names = {item.name for item in schema.fields if item.physical_name in partition_values}
    pruner = Pruner(bound_predicate, schema, names)
    return pruner.may_match(partition_values=partition_values, stats=stats)


def matching_partitions(
    bound_predicate: Predicate,
    schema: StructType,
    partition_columns: Collection[str],
    partitions: Iterable[tuple[int, Mapping[str, str | None]]],
) -> list[int]:
    """The ids of the partitions whose values may satisfy the predicate."""
    pruner = Pruner(bound_predicate, schema, partition_columns)
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
    """Whether the predicate uses only partition columns."""
    wanted = {name.lower() for name in partition_columns}
    return all(len(path) == 1 and path[0].lower() in wanted for path in columns(predicate))


# --- may it be true? ------------------------------------------------------------------


def _may(predicate: Predicate, domains: _Domains) -> bool:
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
            return _may_compare(operator, value, domains.get(left.path, UNKNOWN))
        case In(column) | Like(column) | IsNull(column):
            return _may_pass(predicate, domains.get(column.path, UNKNOWN))
    return True


def _may_compare(operator: str, value: Any, domain: Domain) -> bool:
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


def _may_pass(test: In | Like | IsNull, domain: Domain) -> bool:
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


def _may_not(test: Predicate, domains: _Domains) -> bool:
    match test:
        case IsNull(column):
            return domains.get(column.path, UNKNOWN).may_be_value
        case Comparison("<=>", left, Literal(value)):
            domain = domains.get(left.path, UNKNOWN)
            return domain.may_be_null or _may_compare("<>", value, domain)
        case In(column, values):
            domain = domains.get(column.path, UNKNOWN)
            # A null in the list makes every miss unknown, so NOT IN is never true.
            return None not in values and all(_may_compare("<>", v, domain) for v in values)
        case Like(column, pattern):
            domain = domains.get(column.path, UNKNOWN)
            if not domain.is_point:
                return domain.may_be_value
            return not like_matches(pattern, domain.low)
    return True


# --- is it surely true? ---------------------------------------------------------------


def _surely(predicate: Predicate, domains: _Domains) -> bool:
    """Whether the predicate is true, neither false nor null, whatever the columns hold."""
    match predicate:
        case And(parts):
            return all(_surely(part, domains) for part in parts)
        case Or(parts):
            return any(_surely(part, domains) for part in parts)
        case Constant(value):
            return value is True
        case Not(part):
            return _surely_not(part, domains)
        case Comparison(operator, left, Literal(value)):
            return _surely_compares(operator, value, domains.get(left.path, UNKNOWN))
        case In(column) | Like(column) | IsNull(column):
            return _surely_passes(predicate, domains.get(column.path, UNKNOWN))
    return False


def _surely_passes(test: In | Like | IsNull, domain: Domain) -> bool:
    match test:
        case IsNull():
            return not domain.may_be_value
        case In(_, values):
            known = [value for value in values if value is not None]
            return any(_surely_compares("=", value, domain) for value in known)
        case Like(_, pattern):
            return _is_one(domain) and like_matches(pattern, domain.low)


def _is_one(domain: Domain) -> bool:
    return domain.is_point and domain.may_be_value and not domain.may_be_null


def _surely_compares(operator: str, value: Any, domain: Domain) -> bool:
    if domain.may_be_null or not domain.may_be_value:
        return False
    match operator:
        case "=" | "<=>":
            return domain.is_point and compare(domain.low, value) == 0
        case "<" | "<=":
            return domain.high is not None and satisfies(operator, domain.high, value)
        case ">" | ">=":
            return domain.low is not None and satisfies(operator, domain.low, value)
    return not domain.reaches(value)


def _surely_not(test: Predicate, domains: _Domains) -> bool:
    match test:
        case IsNull(column):
            return not domains.get(column.path, UNKNOWN).may_be_null
        case Comparison("<=>", left, Literal(value)):
            domain = domains.get(left.path, UNKNOWN)
            return not domain.may_be_value or not domain.reaches(value)
        case In(column, values):
            domain = domains.get(column.path, UNKNOWN)
            return None not in values and all(
                _surely_compares("<>", value, domain) for value in values
            )
        case Like(column, pattern):
            domain = domains.get(column.path, UNKNOWN)
            return _is_one(domain) and not like_matches(pattern, domain.low)
    return False
