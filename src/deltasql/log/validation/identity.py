"""Whether identity columns can number rows: with integers, each used once."""

from __future__ import annotations

from deltasql.errors import ValidationError
from deltasql.spec.properties import (
    IDENTITY_ALLOWS_EXPLICIT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
)
from deltasql.spec.schema import Primitive, StructField, StructType

_NUMBERS = (IDENTITY_START, IDENTITY_STEP, IDENTITY_HIGH_WATER_MARK)
_LONGS = range(-(2**63), 2**63)


def check_identity(schema: StructType, before: StructType | None = None) -> None:
    """Raise `ValidationError` for a column that is new and can't be an identity column."""
    known = set() if before is None else {_declared(item) for item in before.fields}
    for item in schema.fields:
        if {IDENTITY_START, IDENTITY_STEP} & set(item.metadata) and _declared(item) not in known:
            _check(item)


def _declared(item: StructField) -> tuple[object, ...]:
    told = (str(item.metadata.get(key)) for key in (IDENTITY_START, IDENTITY_STEP))
    return (item.name, str(item.type), *told)


def _check(item: StructField) -> None:
    if item.type != Primitive("long"):
        kind = item.type.name if isinstance(item.type, Primitive) else "nested"
        raise _refused(item, f"it is of type {kind}", "make it a long (pa.int64())")
    for key in _NUMBERS:
        value = item.metadata.get(key, 1)
        if type(value) is not int or value not in _LONGS:
            raise _refused(item, f"{key} is {value!r:.80}", "write a whole number that fits a long")
    if item.metadata.get(IDENTITY_STEP, 1) == 0:
        raise _refused(item, f"{IDENTITY_STEP} is 0: all rows would have the same number", "use 1")
    explicit = item.metadata.get(IDENTITY_ALLOWS_EXPLICIT, True)
    if not isinstance(explicit, bool):
        raise _refused(item, f"{IDENTITY_ALLOWS_EXPLICIT} is {explicit!r:.80}", "use true or false")


def _refused(item: StructField, cause: str, remedy: str) -> ValidationError:
    return ValidationError(
        f"the column {item.name!r:.80} can't be an identity column",
        cause=cause,
        remedy=remedy,
        column=item.name,
    )
