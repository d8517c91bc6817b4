"""`stats_parsed`: the JSON of stats as typed columns.

Arrow's JSON reader does it for whole batches. It is exact for integers and decimals, but
laxer than the spec about times and infinities: those are read as text, or checked later.
Rows that it can't read are found by halving and parsed one by one; what can't be expressed
in the column's type becomes null, which readers take for "unknown".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pat

from deltasql.log.pruning.stats_keys import stats_date, stats_instant, stats_wall_clock

# With fewer rows than this, halving costs more than parsing them one by one.
_FEW = 64
_LARGEST_FLOAT = 3.4028234663852886e38
_INTEGER_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
# Writers that compute decimals from doubles are off by some units in the last place.
_DECIMAL_SLACK = Decimal("4e-15")
_WIDE = Context(prec=80)


def parse_stats(texts: pa.Array, kind: pa.StructType) -> pa.StructArray:
    """Stats texts as structs of `kind`; null where there is no text."""
    chunks = list(_chunks(texts, kind))
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _chunks(texts: pa.Array, kind: pa.StructType) -> Iterator[pa.StructArray]:
    if len(texts) <= _FEW:
        yield _one_by_one(texts, kind)
        return
    found = _at_once(texts, kind)
    if found is not None:
        yield found
        return
    half = len(texts) // 2
    yield from _chunks(texts[:half], kind)
    yield from _chunks(texts[half:], kind)


# --- whole batches --------------------------------------------------------------------


def _at_once(texts: pa.Array, kind: pa.StructType) -> pa.StructArray | None:
    """The structs, or None if a row needs a closer look."""
    present = texts if texts.null_count == 0 else pc.fill_null(texts, "{}")
    # A text that does not begin an object could shift the rows after it.
    if not pc.all(pc.starts_with(present, "{")).as_py():
        return None
    # The reader takes a decimal with certain negative exponents for 0.
    if _has_decimals(kind) and pc.any(pc.match_substring_regex(present, "[0-9][eE]-")).as_py():
        return None
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(present)], present), "\n")
    data = lines[0].as_buffer()
    wanted = pa.schema([pa.field(item.name, _read_as(item.type)) for item in kind])
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=wanted, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != len(texts):
            return None
        columns = [_refine(table.column(item.name).combine_chunks(), item.type) for item in kind]
    except pa.ArrowInvalid:
        return None
    mask = texts.is_null() if texts.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def _has_decimals(kind: pa.DataType) -> bool:
    if pat.is_struct(kind):
        return any(_has_decimals(item.type) for item in kind)
    return bool(pat.is_decimal(kind))


def _read_as(kind: pa.DataType) -> pa.DataType:
    """The type to read: times as text, since the reader accepts them with and without a zone."""
    if pat.is_struct(kind):
        return pa.struct([pa.field(item.name, _read_as(item.type)) for item in kind])
    return pa.string() if pat.is_date(kind) or pat.is_timestamp(kind) else kind


def _refine(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """What was read, as `kind`; `ArrowInvalid` if a text is not of that kind."""
    if pat.is_struct(kind):
        inner = [_refine(column.field(place), item.type) for place, item in enumerate(kind)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=mask)
    if pat.is_timestamp(kind) and kind.tz is None:
        # Some writers append a Z to local times; it means nothing.
        return pc.utf8_rtrim(column, characters="Z").cast(kind)
    if pat.is_date(kind) or pat.is_timestamp(kind):
        return column.cast(kind)
    if pat.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if pat.is_decimal(kind):
        return _within(column, kind)
    return column


def _within(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Check the digits again: the reader counts those of integers before it scales them up."""
    largest = Decimal((0, (9,) * kind.precision, -kind.scale))
    if pc.any(pc.greater(pc.abs(column), pa.scalar(largest, kind))).as_py():
        raise pa.ArrowInvalid("a decimal has too many digits")
    return column


# --- row by row -----------------------------------------------------------------------


def _one_by_one(texts: pa.Array, kind: pa.StructType) -> pa.StructArray:
    return pa.array([_parse(text, kind) for text in texts.to_pylist()], kind)


def _parse(text: str | None, kind: pa.StructType) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        # Every digit counts: a decimal must not pass through a double.
        found = json.loads(text, parse_float=Decimal, parse_constant=_nothing)
    except (ValueError, RecursionError):
        return None
    return _value(found, kind) if type(found) is dict else None


def _nothing(_name: str) -> None:
    """Bare NaN and Infinity are neither JSON nor bounds."""


def _value(raw: Any, kind: pa.DataType) -> Any:
    """What the stats say in the column's type, or None."""
    if not pat.is_struct(kind):
        return None if raw is None else _scalar(raw, kind)
    if type(raw) is not dict:
        return None
    return {item.name: _value(raw.get(item.name), item.type) for item in kind}


def _scalar(raw: Any, kind: pa.DataType) -> Any:
    if kind in _INTEGER_BITS:
        return _integer(raw, _INTEGER_BITS[kind])
    if pat.is_decimal(kind):
        return _decimal(raw, kind)
    if pat.is_floating(kind):
        return _float(raw, kind)
    if pat.is_date(kind):
        return stats_date(raw)
    if pat.is_timestamp(kind):
        return stats_wall_clock(raw) if kind.tz is None else stats_instant(raw)
    if pat.is_boolean(kind):
        return raw if type(raw) is bool else None
    return _text(raw)


def _integer(raw: Any, bits: int) -> int | None:
    limit = 1 << (bits - 1)
    return raw if type(raw) is int and -limit <= raw < limit else None


def _float(raw: Any, kind: pa.DataType) -> float | None:
    if type(raw) not in (int, Decimal):
        return None
    largest = _LARGEST_FLOAT if kind == pa.float32() else math.inf
    try:
        number = float(raw)
    except OverflowError:
        return None
    return number if math.isfinite(number) and abs(number) <= largest else None


def _decimal(raw: Any, kind: pa.DataType) -> Decimal | None:
    if type(raw) not in (int, Decimal, str):
        return None
    try:
        number = Decimal(raw)
        nearest = number.quantize(Decimal((0, (1,), -kind.scale)), context=_WIDE)
    except InvalidOperation:
        return None
    slack = _WIDE.multiply(_DECIMAL_SLACK, number.copy_abs())
    if not number.is_finite() or _WIDE.subtract(nearest, number).copy_abs() > slack:
        return None
    return nearest if len(nearest.as_tuple().digits) <= kind.precision else None


def _text(raw: Any) -> str | None:
    if type(raw) is not str:
        return None
    try:
        raw.encode()
    except UnicodeEncodeError:
        # Half a character, which JSON can express but Parquet can't.
        return None
    return raw
