"""Which files of the table a merge can touch, judged by its condition and the source's keys.

Conjuncts on the table alone skip files directly. An equality between a column of the table and an
expression of the source skips everything outside the source's values: in SQL by the lowest and the
highest key, and then file by file, if no key lies between the file's bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from deltasql.data.arrow_schema import arrow_type
from deltasql.data.expressions import types
from deltasql.data.expressions.dialect import Node, Translator
from deltasql.data.expressions.predicates import conjuncts, understood
from deltasql.data.expressions.session import Session
from deltasql.lake.dml.merge_source import MergeSource
from deltasql.log.predicates.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    Literal,
    Predicate,
    bind,
)
from deltasql.log.pruning.stats_keys import high_text, load_stats
from deltasql.log.state import TableState
from deltasql.spec.actions import AddFile
from deltasql.spec.schema import Primitive, StructField

# Types that the engine and the stats of files order in the same way.
_ORDERED = frozenset({"byte", "short", "integer", "long", "string", "date"})
# With more values of a partition column than this, only their range is used.
_MOST_VALUES = 500


@dataclass(frozen=True, slots=True)
class Key:
    """A column of the table, and the expression of the source that it equals."""

    item: StructField
    sql: str


class MergePruning:
    """The rows of a table that a source can match."""

    def __init__(
        self,
        session: Session,
        state: TableState,
        source: MergeSource,
        translator: Translator,
        target: str,
    ) -> None:
        self._session = session
        self._state = state
        self._source = source
        self._translator = translator
        self._target = target

    def reach(self, condition: Node) -> tuple[Predicate | None, list[Key]]:
        """What is known about the rows that match, and the keys from which it is known."""
        own, _ = understood(condition, self._state.schema, self._own)
        keys = list(self._keys(condition))
        parts = [own] if own is not None else []
        if keys:
            bounds = tuple(self._bounds(key) for key in keys)
            parts.append(bind(And(bounds), self._state.schema))
        if not parts:
            return None, keys
        return (parts[0] if len(parts) == 1 else And(tuple(parts))), keys

    def _own(self, names: Sequence[str]) -> tuple[str, ...] | None:
        found = self._translator.scope.find(names)
        if found is None or found.relation.alias != self._target:
            return None
        return (found.column, *found.path)

    def _keys(self, condition: Node) -> Iterator[Key]:
        for part in conjuncts(condition):
            if part["type"] != "COMPARE_EQUAL":
                continue
            for mine, theirs in ((part["left"], part["right"]), (part["right"], part["left"])):
                key = self._key(mine, theirs)
                if key is not None:
                    yield key
                    break

    def _key(self, mine: Node, theirs: Node) -> Key | None:
        path = self._own(mine["column_names"]) if mine["class"] == "COLUMN_REF" else None
        item = self._state.schema.field(path[0]) if path is not None and len(path) == 1 else None
        if item is None or not isinstance(item.type, Primitive) or item.type.name not in _ORDERED:
            return None
        translator = Translator(self._translator.scope, self._translator.moment)
        sql = translator.sql(theirs)
        if {alias for alias, _ in translator.used} != {self._source.relation.alias}:
            return None
        have, want = translator.type_of(theirs, sql), types.engine_type(item.type)
        same = have == want or {have, want} <= types.INTEGERS
        return Key(item, sql) if same else None

    # --- the source's keys --------------------------------------------------------------

    def _bounds(self, key: Key) -> Predicate:
        source, engine = self._source.sql, self._session.engine
        column = Column((key.item.name,))
        low, high, count = engine.rows(
            f"SELECT min({key.sql}), max({key.sql}), approx_count_distinct({key.sql}) FROM {source}"  # noqa: S608
        )[0]
        if low is None:
            # Null equals nothing: no row of the table matches.
            return Constant(value=False)
        if key.item.name in self._state.partition_columns and count <= 2 * _MOST_VALUES:
            found = engine.rows(
                f"SELECT DISTINCT {key.sql} FROM {source} "  # noqa: S608
                f"WHERE {key.sql} IS NOT NULL LIMIT {_MOST_VALUES + 1}"
            )
            if len(found) <= _MOST_VALUES and all(_is_plain(key, *row) for row in found):
                return In(column, tuple(row[0] for row in found))
        if not _is_plain(key, low, high):
            return Constant(value=True)
        return And(
            (Comparison(">=", column, Literal(low)), Comparison("<=", column, Literal(high)))
        )

    def with_keys(self, files: Sequence[AddFile], keys: Sequence[Key]) -> list[AddFile]:
        """The files that may hold one of the source's keys, judged by their stats."""
        partitions = {name.lower() for name in self._state.partition_columns}
        kept = list(files)
        for key in keys:
            if len(kept) > 1 and key.item.name.lower() not in partitions:
                kept = self._having(kept, key)
        return kept

    def _having(self, files: Sequence[AddFile], key: Key) -> list[AddFile]:
        lows, highs = [], []
        mapped = self._state.column_mapping != "none"
        name = key.item.physical_name if mapped else key.item.name
        for add in files:
            stats = load_stats(add.stats)
            lows.append(_bound(stats, "minValues", name, key.item))
            highs.append(_bound(stats, "maxValues", name, key.item))
        kind = pa.int64() if types.engine_type(key.item.type) in types.INTEGERS else None
        kind = kind or arrow_type(key.item.type)
        numbers = pa.array(range(len(files)), pa.int32())
        table = pa.table({"n": numbers, "low": pa.array(lows, kind), "high": pa.array(highs, kind)})
        engine = self._session.engine
        with engine.reading(table.schema, table.to_batches()) as name_:
            found = engine.rows(
                f"WITH files AS MATERIALIZED (SELECT * FROM {name_}), "  # noqa: S608
                f"keys AS MATERIALIZED (SELECT DISTINCT {key.sql} AS k FROM {self._source.sql}) "
                "SELECT n FROM files WHERE low IS NULL OR high IS NULL OR EXISTS "
                "(SELECT 1 FROM keys WHERE k BETWEEN low AND high)"
            )
        wanted = {row[0] for row in found}
        return [add for number, add in enumerate(files) if number in wanted]


def _is_plain(key: Key, *values: Any) -> bool:
    """Whether the values are Python's: DuckDB returns dates that Python can't hold as text."""
    wanted = date if key.item.type == Primitive("date") else int | str
    return all(isinstance(value, wanted) for value in values)


def _bound(stats: Any, side: str, name: str, item: StructField) -> Any:
    found = (stats or {}).get(side)
    value = found.get(name) if isinstance(found, dict) else None
    if item.type == Primitive("date"):
        try:
            return date.fromisoformat(value) if isinstance(value, str) else None
        except ValueError:
            return None
    if item.type == Primitive("string"):
        return high_text(value) if side == "maxValues" else value if type(value) is str else None
    return value if type(value) is int else None
