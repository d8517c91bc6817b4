"""Python values as SQL text, for callers who set a column to a value, not an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from deltasql.errors import ValidationError
from deltasql.log.predicates.text_literals import literal_of


def literal(value: Any) -> str:
    """The SQL literal for a value."""
    try:
        return _rendered(value)
    except (RecursionError, ValueError) as error:
        raise ValidationError(
            f"a column can't be set to this {type(value).__name__}",
            cause=str(error),
            remedy="give a value that fits into a column: numbers of at most 38 digits, lists and "
            "dicts that are not within themselves",
        ) from None


def _rendered(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    for kind, render in _RENDERERS:
        if isinstance(value, kind):
            return render(value)
    raise ValidationError(
        f"a column can't be set to a {type(value).__name__}",
        cause="values are SQL text, numbers, texts, dates and times, or lists and dicts of them",
        remedy='write an expression, such as "amount + 1"',
    )


def _moment(value: datetime) -> str:
    shown = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    kind = "timestamp_ntz" if value.tzinfo is None else "timestamp"
    return f"CAST('{shown.isoformat(' ')}' AS {kind})"


def _field(item: tuple[str, Any]) -> str:
    return f"{_rendered(item[0])}, {_rendered(item[1])}"


_RENDERERS: list[tuple[type, Callable[[Any], str]]] = [
    (int, str),
    (float, lambda value: f"CAST('{value!r}' AS DOUBLE)"),
    (Decimal, lambda value: format(value, "f")),
    (str, literal_of),
    (bytes, lambda value: f"X'{value.hex()}'"),
    # Before `date`: a datetime is a date as well.
    (datetime, _moment),
    (date, lambda value: f"DATE '{value.isoformat()}'"),
    (list, lambda value: f"list_value({', '.join(map(_rendered, value))})"),
    (dict, lambda value: f"named_struct({', '.join(map(_field, value.items()))})"),
]


def expressions(given: Mapping[str, Any]) -> dict[str, str]:
    """Expressions as they are, and every other value as a literal."""
    return {
        key: value if isinstance(value, str) else literal(value) for key, value in given.items()
    }


def assignments(
    given: Mapping[str, Any] | None, values: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """What a clause sets: either the expressions `given`, or the Python `values`."""
    if given and values:
        raise ValidationError(
            "both expressions and values were given", remedy="use one of the two for all columns"
        )
    if values:
        return {key: literal(value) for key, value in values.items()}
    if not isinstance(given or {}, Mapping):
        raise ValidationError(
            f"columns can't be set by a {type(given).__name__}",
            remedy='name the columns and their values: {"amount": "amount + 1"}',
        )
    if not given:
        raise ValidationError(
            "no column is set",
            cause="what to set is missing or empty, so every row would stay as it is",
            remedy='name the columns and their values: {"amount": "amount + 1"}',
        )
    return expressions(given)
