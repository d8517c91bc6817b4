"""The least and the greatest value of a column: from the log where it is exact, else from rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import cmp_to_key
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import ValidationError
from deltasql.log.predicates.ast import compare
from deltasql.log.pruning.stats_keys import load_stats
from deltasql.spec.actions import AddFile
from deltasql.spec.partition_values import INTEGER_BITS, parse_value
from deltasql.spec.schema import Primitive, StructField

# Statistics of texts and times may be cut off, and those of doubles leave out NaN.
_EXACT: Final = frozenset({*INTEGER_BITS, "date"})


class Extremes:
    """The least and the greatest of the values seen so far; nulls don't count."""

    def __init__(self, item: StructField, *, is_partition: bool) -> None:
        if not isinstance(item.type, Primitive):
            raise ValidationError(
                f"column {item.name} has no minimum and no maximum",
                cause="it is a struct, an array or a map",
                remedy="name a column of a scalar type",
            )
        self._item = item
        self._type: Primitive = item.type
        self._is_partition = is_partition
        self._found: list[Any] = []

    @property
    def values(self) -> tuple[Any, Any]:
        """The least and the greatest value, both None if there are none; NaN is the greatest."""
        if not self._found:
            return None, None
        key = cmp_to_key(compare)
        return min(self._found, key=key), max(self._found, key=key)

    def learn(self, add: AddFile, rows: int | None) -> bool:
        """Take what the log says of all rows of a file, which has so many; False if it can't."""
        if not rows:
            return False
        if self._is_partition:
            value = parse_value(add.partition_values.get(self._item.physical_name), self._type)
            self._found += [] if value is None else [value]
            return True
        if self._type.name not in _EXACT or add.deletion_vector is not None:
            return False
        stats = load_stats(add.stats)
        if stats.get("tightBounds") is False:
            return False
        if self._of(stats, "nullCount") == rows:
            return True
        ends = [self._exact(self._of(stats, key)) for key in ("minValues", "maxValues")]
        if None in ends:
            return False
        self._found += ends
        return True

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take the values of rows; the column is the first."""
        for batch in batches:
            column = batch.column(0)
            self._found += [end.as_py() for end in pc.min_max(column).values() if end.is_valid]
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                self._found.append(float("nan"))

    def _of(self, stats: dict[str, Any], key: str) -> Any:
        found = stats.get(key)
        return found.get(self._item.physical_name) if isinstance(found, dict) else None

    def _exact(self, value: Any) -> Any:
        if self._type.name != "date":
            return value if type(value) is int else None
        try:
            return date.fromisoformat(value)
        except (TypeError, ValueError):
            return None
