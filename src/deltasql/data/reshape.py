"""Arrow arrays of one shape turned into another: structs by field, lists and maps inside them.

What matches and what may be cast is up to the caller: conforming a user's data and reading old
files differ only in that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import is_list, plain_type
from deltasql.data.cast import CastRefusedError
from deltasql.spec.schema import ArrayType, DeltaType, MapType, Primitive, StructField, StructType


class ReshapeError(Exception):
    """The column `where` does not fit; the message says why."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rules:
    """How the fields of a struct are found and how scalars are cast.

    `match` gives, for each wanted field, its index among the existing fields, or -1; it raises
    `ReshapeError` if that is not allowed. `by_name` says that equal types need no work.
    """

    match: Callable[[Sequence[pa.Field], Sequence[StructField], str], list[int]]
    cast: Callable[[pa.Array, pa.DataType], pa.Array]
    by_name: bool = True


def reshape(
    array: pa.Array, kind: DeltaType, target: pa.DataType, *, rules: Rules, where: str
) -> pa.Array:
    """The array as `target`, the Arrow form of `kind`."""
    if array.type == target and (rules.by_name or isinstance(kind, Primitive)):
        return array
    try:
        match kind:
            case StructType():
                return _struct(array, kind, target, rules, where)
            case ArrayType():
                return _list(array, kind, target, rules, where)
            case MapType():
                return _map(array, kind, target, rules, where)
            case Primitive():
                return rules.cast(array, target)
    except CastRefusedError as error:
        raise ReshapeError(where, str(error)) from None


def _struct(
    array: pa.Array, kind: StructType, target: pa.StructType, rules: Rules, where: str
) -> pa.Array:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if not pa.types.is_struct(array.type):
        raise ReshapeError(where, f"{array.type} can't be cast to a struct")
    there = rules.match(list(array.type), kind.fields, where)
    children = [
        pa.nulls(len(array), target.field(position).type)
        if index < 0
        else reshape(
            # Null structs may hold garbage, which no cast should see.
            pc.struct_field(array, [index]) if array.null_count else array.field(index),
            item.type,
            target.field(position).type,
            rules=rules,
            where=f"{where}.{item.name}",
        )
        for position, (item, index) in enumerate(zip(kind.fields, there, strict=True))
    ]
    if not children:
        return _empty_struct(array, target)
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _empty_struct(array: pa.Array, target: pa.StructType) -> pa.Array:
    whole = pa.array([{}], target).take(pa.nulls(len(array), pa.int64()).fill_null(0))
    return pc.if_else(pc.is_valid(array), whole, pa.nulls(len(array), target))


def _list(
    array: pa.Array, kind: ArrayType, target: pa.ListType, rules: Rules, where: str
) -> pa.Array:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if not is_list(array.type):
        raise ReshapeError(where, f"{array.type} can't be cast to a list")
    # Arrow refuses even a cast to the same type if a null struct has required fields.
    plain = array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))
    offsets, elements = _taken_apart(plain)
    values = reshape(elements, kind.element, target.value_type, rules=rules, where=f"{where}[]")
    mask = pc.is_null(array) if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)


def _map(array: pa.Array, kind: MapType, target: pa.MapType, rules: Rules, where: str) -> pa.Array:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if not pa.types.is_map(array.type):
        raise ReshapeError(where, f"{plain_type(array.type)} can't be cast to a map")
    offsets, entries = _taken_apart(array.cast(entries_type(array.type)))
    keys, items = entries.field(0), entries.field(1)
    return pa.MapArray.from_arrays(
        offsets,
        reshape(keys, kind.key, target.key_type, rules=rules, where=f"{where}[key]"),
        reshape(items, kind.value, target.item_type, rules=rules, where=f"{where}[value]"),
        type=target,
        mask=pc.is_null(array) if array.null_count else None,
    )


def entries_type(kind: pa.MapType) -> pa.ListType:
    """A map's type as the list of structs that underlies it."""
    return pa.list_(pa.struct([kind.key_field, kind.item_field]))


def _taken_apart(array: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """Offsets from zero, and the elements that they span; null lists span none."""
    if array.null_count:
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        ends = pc.cumulative_sum(lengths)
        return pa.concat_arrays([pa.array([0], pa.int32()), ends]), array.flatten()
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return pc.subtract(array.offsets, array.offsets[0]), array.values.slice(first, last - first)
