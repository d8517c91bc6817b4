"""The `stats` of a data file: row count, bounds and null counts, by physical names.

Bounds hold or are left out: the maximum of a cut string is rounded up, a column with NaN has no
maximum (Spark and SQL order NaN last), infinities and years beyond 1 to 9999 have no JSON form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.spec.properties import NUM_INDEXED_COLUMNS as NUM_INDEXED
from deltasql.spec.properties import PROPERTIES, STATS_COLUMNS
from deltasql.spec.schema import DeltaType, Primitive, StructField, StructType

DEFAULT_INDEXED = 32
PREFIX = 32

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
# Below this many rows Python's own min and max beat the start-up of Arrow's kernels.
_SMALL = 64
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Indexed:
    """A leaf with stats: its place in the data, its physical path, and its kind of bounds."""

    column: int
    inner: tuple[int, ...]
    path: tuple[str, ...]
    bounds: str | None


class Collector:
    """Stats of a file that is written table by table."""

    __slots__ = ("_found", "_leaves", "_rows", "_unknown")

    def __init__(self, leaves: Sequence[Indexed]) -> None:
        self._leaves = leaves
        self._rows = 0
        self._found: list[tuple[int, Bounds]] = [(0, _NOTHING)] * len(leaves)
        self._unknown: set[int] = set()

    def add(self, table: pa.Table, told: Collection[int] = ()) -> None:
        """Include the table's rows; the bounds of the leaves at the places `told` come later."""
        rows = table.num_rows
        self._rows += rows
        find = _small_bounds if rows <= _SMALL else _large_bounds
        for position, leaf in enumerate(self._leaves):
            column = table.column(leaf.column)
            if leaf.inner:
                column = pc.struct_field(column, leaf.inner)
            nulls, before = column.null_count, self._found[position]
            bounds = _NOTHING
            if leaf.bounds is not None and nulls < rows:
                bounds = (
                    _nothing_but_nan(column, leaf.bounds)
                    if position in told
                    else find(column, leaf.bounds)
                )
            self._found[position] = before[0] + nulls, _join(before[1], bounds)

    def learn(self, position: int, low: Any, high: Any) -> None:
        """Include bounds of one leaf, as the footer of a file has them."""
        nulls, before = self._found[position]
        # Parquet has -0.0 as the minimum of zeros.
        low = low + 0.0 if isinstance(low, float) else low
        self._found[position] = nulls, _join(before, (low, high, False))

    def forget(self, position: int) -> None:
        """Leave out the bounds of one leaf: those of some of its rows are unknown."""
        self._unknown.add(position)

    def render(self) -> str:
        """The JSON text."""
        lows: dict[str, Any] = {}
        highs: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        found = zip(self._leaves, self._found, strict=True)
        for position, (leaf, (count, bounds)) in enumerate(found):
            *structs, name = leaf.path
            (_inner(nulls, structs) if structs else nulls)[name] = count
            is_known = bounds is not _NOTHING and position not in self._unknown
            if is_known and leaf.bounds is not None:
                low, high = _rendered(bounds, leaf.bounds)
                if low is not None:
                    (_inner(lows, structs) if structs else lows)[name] = low
                if high is not None:
                    (_inner(highs, structs) if structs else highs)[name] = high
        content = {
            "numRecords": self._rows,
            "minValues": lows,
            "maxValues": highs,
            "nullCount": nulls,
        }
        return orjson.dumps(content).decode()


def indexed(
    schema: StructType, configuration: Mapping[str, str], *, skip: Sequence[str] = ()
) -> list[Indexed]:
    """The leaves that the table's properties ask stats for; `skip` names columns not in files."""
    stored = [item for item in schema.fields if item.name not in skip]
    leaves = [
        (logical, leaf)
        for position, item in enumerate(stored)
        for logical, leaf in _walk(item, position, (), (), ())
    ]
    chosen = configuration.get(STATS_COLUMNS)
    if chosen is not None:
        wanted = parse_names(chosen)
        return [
            leaf for logical, leaf in leaves if any(logical[: len(name)] == name for name in wanted)
        ]
    limit = _limit(configuration.get(NUM_INDEXED))
    return [leaf for _, leaf in (leaves if limit < 0 else leaves[:limit])]


def _limit(text: str | None) -> int:
    # A meaningless value came from another writer: it must not stop the rows.
    found = None if text is None else PROPERTIES[NUM_INDEXED].parse(text)
    return DEFAULT_INDEXED if found is None else int(found)


def _walk(
    item: StructField,
    column: int,
    inner: tuple[int, ...],
    logical: tuple[str, ...],
    physical: tuple[str, ...],
) -> list[tuple[tuple[str, ...], Indexed]]:
    logical = (*logical, item.name.lower())
    physical = (*physical, item.physical_name)
    if not isinstance(item.type, StructType):
        return [(logical, Indexed(column, inner, physical, _bounds_kind(item.type)))]
    return [
        found
        for position, child in enumerate(item.type.fields)
        for found in _walk(child, column, (*inner, position), logical, physical)
    ]


def _bounds_kind(kind: DeltaType) -> str | None:
    """Which bounds a type has; booleans, binaries, lists and maps have none."""
    if not isinstance(kind, Primitive):
        return None
    if kind.decimal is not None:
        return "decimal"
    if kind.name in ("byte", "short", "integer", "long"):
        return "integer"
    if kind.name in ("float", "double"):
        return "float"
    return kind.name if kind.name in ("string", "date", "timestamp", "timestamp_ntz") else None


def parse_names(text: str) -> list[tuple[str, ...]]:
    """The columns of a comma-separated list: dots lead into structs, backticks quote."""
    names: list[tuple[str, ...]] = []
    parts, part, quoted = [], "", False
    for character in text + ",":
        if character == "`":
            quoted = not quoted
        elif quoted or character not in ".,":
            part += character
        else:
            parts.append(part.strip().lower())
            part = ""
            if character == ",":
                names.append(tuple(parts))
                parts = []
    return [name for name in names if name != ("",)]


# --- bounds ---------------------------------------------------------------------------

# Lowest, highest, and whether NaN was seen.
Bounds: TypeAlias = tuple[Any, Any, bool]
_NOTHING: Bounds = (None, None, False)
_AS_INTEGER = {"timestamp": pa.int64(), "timestamp_ntz": pa.int64(), "date": pa.int32()}


def _large_bounds(column: pa.ChunkedArray, kind: str) -> Bounds:
    number = _as_number(kind)
    if number is not None:
        column = column.cast(number)
    nan = kind == "float" and pc.any(pc.is_nan(column)).as_py()
    if nan:
        column = column.filter(pc.invert(pc.is_nan(column)))
    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py(), nan


def _nothing_but_nan(column: pa.ChunkedArray, kind: str) -> Bounds:
    """No bounds, and whether NaN was seen: Parquet's bounds don't say."""
    nan = kind == "float" and bool(pc.any(pc.is_nan(column)).as_py())
    return (None, None, True) if nan else _NOTHING


def _small_bounds(column: pa.ChunkedArray, kind: str) -> Bounds:
    number = _as_number(kind)
    values = column.to_pylist() if number is None else _numbers_of(column, number)
    return _bounds_of([value for value in values if value is not None], kind)


def _as_number(kind: str | None) -> pa.DataType | None:
    """The number type that stands for times in bounds; None for other kinds."""
    return None if kind is None else _AS_INTEGER.get(kind)


def _numbers_of(column: pa.ChunkedArray, number: pa.DataType) -> list[Any]:
    """Times as plain numbers, instead of the objects that Arrow would make."""
    return [value for chunk in column.chunks for value in chunk.view(number).to_pylist()]


def _bounds_of(values: list[Any], kind: str | None) -> Bounds:
    """The bounds of values without nulls."""
    if kind is None or not values:
        return _NOTHING
    nan = False
    if kind == "float":
        # Only NaN differs from itself.
        ordered = [value for value in values if value == value]
        nan = len(ordered) < len(values)
        values = ordered
    return (min(values), max(values), nan) if values else (None, None, nan)


def _join(a: Bounds, b: Bounds) -> Bounds:
    if a is _NOTHING:
        return b
    lows = [low for low in (a[0], b[0]) if low is not None]
    highs = [high for high in (a[1], b[1]) if high is not None]
    return min(lows, default=None), max(highs, default=None), a[2] or b[2]


def _inner(tree: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    for name in path:
        tree = tree.setdefault(name, {})
    return tree


# --- rendering ------------------------------------------------------------------------


def _rendered(found: Bounds, kind: str) -> tuple[Any, Any]:
    """Both bounds as JSON values; None for what JSON can't express."""
    low, high, nan = found
    if kind in _RENDERERS:
        least, most = _RENDERERS[kind]
        low = None if low is None else least(low)
        high = None if high is None else most(high)
    return low, None if nan else high


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _decimal(value: Any) -> orjson.Fragment:
    return orjson.Fragment(format(value, "f"))


def _date(days: int) -> str | None:
    try:
        return (_EPOCH_DAY + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _wall_clock(microseconds: int) -> str | None:
    # Whole milliseconds, rounded towards the past: the spec's rule for both bounds.
    try:
        moment = _EPOCH + timedelta(milliseconds=microseconds // 1000)
    except OverflowError:
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _instant(microseconds: int) -> str | None:
    text = _wall_clock(microseconds)
    return None if text is None else text + "Z"


def _prefix(text: str) -> str:
    return text[:PREFIX]


def round_up(text: str) -> str | None:
    """A string of at most 32 characters that no string with this one's prefix exceeds."""
    if len(text) <= PREFIX:
        return text
    for end in range(PREFIX, 0, -1):
        code = ord(text[end - 1]) + 1
        if code <= _LAST_CHARACTER:
            following = _SURROGATES.stop if code in _SURROGATES else code
            return text[: end - 1] + chr(following)
    return None


_Render: TypeAlias = Callable[[Any], Any]
_RENDERERS: dict[str, tuple[_Render, _Render]] = {
    "float": (_finite, _finite),
    "decimal": (_decimal, _decimal),
    "date": (_date, _date),
    "timestamp": (_instant, _instant),
    "timestamp_ntz": (_wall_clock, _wall_clock),
    "string": (_prefix, round_up),
}
