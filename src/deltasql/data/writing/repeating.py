"""Which columns repeat their values, so that a dictionary pays off."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# Distinct values are counted in this many rows. If their share is larger than this, a column would
# outgrow the dictionary of a row group (1 MiB, some 130,000 numbers), and to begin one is a third
# of the work of encoding.
_SAMPLE = 1 << 14
_SHARE = 0.95


def repeating(table: pa.Table) -> list[str]:
    """The file paths of columns that a dictionary encodes; nested columns always have one."""
    found: list[str] = []
    for item, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_nested(item.type):
            found += _leaves(item.type, item.name)
        elif not pa.types.is_boolean(item.type) and _repeats(column):
            found.append(item.name)
    return found


def _repeats(column: pa.ChunkedArray) -> bool:
    sample = column.slice(column.length() // 2, _SAMPLE)
    return bool(pc.count_distinct(sample).as_py() <= _SHARE * len(sample))


def _leaves(kind: pa.DataType, path: str) -> list[str]:
    if pa.types.is_struct(kind):
        inner = [kind.field(n) for n in range(kind.num_fields)]
        return [leaf for item in inner for leaf in _leaves(item.type, f"{path}.{item.name}")]
    if pa.types.is_map(kind):
        keys = _leaves(kind.key_type, f"{path}.key_value.key")
        return [*keys, *_leaves(kind.item_type, f"{path}.key_value.value")]
    if pa.types.is_list(kind):
        return _leaves(kind.value_type, f"{path}.list.element")
    return [path]
