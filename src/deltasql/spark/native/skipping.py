"""The part of a Spark condition that the database can decide: files are skipped by it.

Spark's own parser splits the condition, and each conjunct that means the same to us is kept.
Leaving one out only means more files for Spark to filter: no row is ever lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltasql.errors import DeltaSqlError
from deltasql.log.predicates.predicate import And, Predicate, bind, columns, parse
from deltasql.log.state import TableState
from deltasql.spec.schema import DeltaType, Primitive, StructType

_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
# A literal as Spark prints it: texts and names stay, numbers lose their type suffix.
_TYPED_NUMBER = re.compile(r"('[^']*'|`[^`]*`)|\b(\d+(?:\.\d*)?(?:E[+-]?\d+)?)(?:BD|[LSYDF])\b")
# A literal that Spark takes for a double, outside of texts and names.
_DOUBLE = re.compile(r"'[^']*'|`[^`]*`|(\b\d+(?:\.\d*)?(?:E[+-]?\d+)?[DF]\b)")
_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "+00:00")


def decidable(
    conjuncts: Sequence[str], state: TableState, *, time_zone: str
) -> tuple[Predicate | None, bool]:
    """The bound predicate of the conjuncts that we understand, and whether these are all."""
    found = [_bound(text, state.schema, time_zone) for text in conjuncts]
    kept = tuple(item for item in found if item is not None)
    whole = len(kept) == len(found)
    if not kept:
        return None, whole
    return (kept[0] if len(kept) == 1 else And(kept)), whole


def _bound(text: str, schema: StructType, time_zone: str) -> Predicate | None:
    # Spark's texts have escapes, ours don't: the same characters could be different values.
    if "\\" in text:
        return None
    plain = _TYPED_NUMBER.sub(lambda match: match[1] or match[2], text)
    try:
        predicate = bind(parse(plain), schema)
    except DeltaSqlError:
        return None
    doubles = any(match[1] for match in _DOUBLE.finditer(text))
    exact = all(
        _means_the_same(path, schema, time_zone, with_double=doubles) for path in columns(predicate)
    )
    return predicate if exact else None


def _means_the_same(
    path: tuple[str, ...], schema: StructType, time_zone: str, *, with_double: bool
) -> bool:
    """Whether Spark compares this column as we do."""
    kind: DeltaType = schema
    for name in path:
        field = kind.field(name) if isinstance(kind, StructType) else None
        if field is None:
            return False
        # Spark pads values that are compared with a char(n).
        if str(field.metadata.get(_CHAR, "")).startswith("char"):
            return False
        kind = field.type
    if not isinstance(kind, Primitive):
        return True
    # Whatever is compared with a double becomes one, and then different large numbers may be equal.
    if with_double and kind.name != "double":
        return False
    # Spark turns a float into a double before comparing it, with digits that stats don't show. A
    # text or a time literal is in the session's time zone.
    return kind.name != "float" and (kind.name != "timestamp" or time_zone in _UTC)
