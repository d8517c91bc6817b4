"""Casts of scalar Arrow arrays that either lose nothing or fail."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from deltasql.data.arrow_schema import plain_type

# What may be cast to what, beyond another width of the same family.
_INCOMING = frozenset(
    {
        ("integer", "float"),
        ("integer", "decimal"),
        ("float", "integer"),  # pandas makes floats of integers with nulls
        ("decimal", "integer"),
        ("date", "timestamp_ntz"),
        ("timestamp_ntz", "timestamp"),  # taken as UTC
    }
)
_STORED = frozenset(
    {
        ("integer", "float"),
        ("integer", "decimal"),
        ("date", "timestamp_ntz"),
        ("timestamp_ntz", "timestamp"),  # INT96, and writers that left the zone out
        ("binary", "string"),  # files of old writers lack the annotation
    }
)
_INT64_DIGITS = 20


class CastRefusedError(Exception):
    """The values can't become the type without loss; the message says why."""


def cast_incoming(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A user's values as the column's type."""
    return _cast(array, target, _INCOMING, safe=True)


def cast_stored(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A file's values as the column's present type: Delta's type widening, and no more."""
    # A file's nanoseconds are beyond Delta's precision: every reader drops them.
    return _cast(array, target, _STORED, safe=not pat.is_timestamp(array.type))


def _cast(
    array: pa.Array, target: pa.DataType, allowed: frozenset[tuple[str, str]], *, safe: bool
) -> pa.Array:
    try:
        array = _plain(array)
        if array.type == target or pat.is_null(array.type):
            return array if array.type == target else pa.nulls(len(array), target)
        pair = _family(array.type), _family(target)
        if pair[0] != pair[1] and pair not in allowed:
            raise CastRefusedError(f"{array.type} can't be cast to {target}")
        if pair == ("integer", "decimal"):
            wide = pa.decimal256(_INT64_DIGITS + target.scale, target.scale)
            return array.cast(wide).cast(target)
        result = array.cast(target, safe=safe)
        if pair == ("float", "float") and target.bit_width < array.type.bit_width:
            _check_exact(array, result)
        return result
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        raise CastRefusedError(str(error)) from None


def _plain(array: pa.Array) -> pa.Array:
    """The array without any dictionary, run-length or extension around the values."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    kind = plain_type(array.type)
    if kind == array.type:
        return array
    if pat.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    if pat.is_dictionary(array.type) and pat.is_string_view(kind):
        # Polars' categories: Arrow decodes no dictionary of views.
        return array.dictionary.cast(pa.string()).take(array.indices)
    return array.cast(kind)


def _check_exact(array: pa.Array, result: pa.Array) -> None:
    same = pc.or_(pc.equal(result.cast(array.type), array), pc.is_nan(array))
    if pc.all(same).as_py() is False:
        raise CastRefusedError(f"a value is not exactly a {result.type}")


_FAMILIES = {
    "integer": (pat.is_integer,),
    "float": (pat.is_floating,),
    "decimal": (pat.is_decimal,),
    "date": (pat.is_date,),
    "string": (pat.is_string, pat.is_large_string, pat.is_string_view),
    "binary": (
        pat.is_binary,
        pat.is_large_binary,
        pat.is_binary_view,
        pat.is_fixed_size_binary,
    ),
}


def _family(kind: pa.DataType) -> str:
    if pat.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    # Check decimals first: underneath they are fixed-size binaries.
    for name, checks in _FAMILIES.items():
        if any(check(kind) for check in checks):
            return name
    return str(kind)
