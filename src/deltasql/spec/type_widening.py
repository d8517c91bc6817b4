"""Type widening: which types a column may change to while its old files stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deltasql.spec.properties import TYPE_CHANGES
from deltasql.spec.schema import Primitive

FEATURES: Final = frozenset({"typeWidening", "typeWidening-preview"})

_INTEGERS = ("byte", "short", "integer", "long")
# How many digits before the point an integer type needs in a decimal.
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_OTHERS = frozenset(
    {("float", "double"), ("date", "timestamp_ntz")}
    | {(name, "double") for name in ("byte", "short", "integer")}
)


def is_widening(old: Primitive, new: Primitive) -> bool:
    """Whether every reader with the feature can read files of the old type as the new one."""
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(new.name) > _INTEGERS.index(old.name)
    if new.decimal is not None:
        precision, scale = new.decimal
        if old.name in _DIGITS:
            return precision - scale >= _DIGITS[old.name]
        if old.decimal is not None:
            more = scale - old.decimal[1]
            return more >= 0 and precision - old.decimal[0] >= more and old.decimal != new.decimal
    return (old.name, new.name) in _OTHERS


def is_recorded(metadata: Mapping[str, Any], place: tuple[str, ...], new: Primitive) -> bool:
    """Whether a column's metadata records its change to a type, as the spec requires.

    `place` leads into arrays and maps, from the column on: `("element",)`.
    """
    changes = metadata.get(TYPE_CHANGES)
    if not isinstance(changes, list):
        return False
    here = [
        change
        for change in changes
        if isinstance(change, dict) and change.get("fieldPath", "") == ".".join(place)
    ]
    return bool(here) and _plain(here[-1].get("toType")) == _plain(new.name)


def _plain(name: Any) -> str:
    return str(name).replace(" ", "")
