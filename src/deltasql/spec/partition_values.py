"""Partition values: the strings of the log as typed values, and back.

The text in the log stays the truth; these values are for comparing and for new files.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NoReturn

from deltasql.errors import LogFormatError, UnsupportedFeatureError, ValidationError
from deltasql.spec.schema import Primitive

# An index entry of PostgreSQL has 2,700.
LONGEST_NAME = 1_000
INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_DATE = r"([+-]?[0-9]{1,9})-([0-9]{1,2})-([0-9]{1,2})"
_DAY = re.compile(_DATE)
_TIMESTAMP = re.compile(
    _DATE + r"(?:[ T]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?"
    r" ?(Z|z|UTC|[+-][0-9]{1,2}(?::?[0-9]{2})?)?)?"
)
# delta-rs writes every byte as six characters, unlike the spec's example, which has one.
_ESCAPED_BYTES = re.compile(r"(?:\\u00[0-9a-fA-F]{2})+")


class UnrepresentableValueError(UnsupportedFeatureError):
    """A valid value that Python can't represent: a date outside the years 1 to 9999.

    Pruning knows on which side of all other values it lies.
    """


def check_storable(values: Mapping[str, str | None], *, source: str) -> None:
    """Raise `LogFormatError` for partition values that PostgreSQL has no room for in an index."""
    fault = ""
    for name, text in values.items():
        if "\0" in name or (text is not None and "\0" in text):
            fault = "they hold a NUL character, which PostgreSQL can't store"
        elif is_too_long(name):
            fault = f"the name of a column has more than {LONGEST_NAME} bytes"
    if fault:
        raise LogFormatError(
            f"{source}: the partition values can't be stored",
            cause=fault,
            remedy="rewrite the table without it, with the writer that made it",
        )


def is_too_long(name: str) -> bool:
    """Whether a partition column's name does not fit an index of PostgreSQL beside a value."""
    return 4 * len(name) > LONGEST_NAME and len(name.encode("utf-8", "replace")) > LONGEST_NAME


def text_in(values: Mapping[str, str | None], name: str, *, file: str) -> str | None:
    """The text of a column, by its physical name, in a file's partition values."""
    if name not in values:
        raise LogFormatError(
            f"the file {file} has no value for the partition column {name!r}",
            cause="its partitionValues lack the column",
            remedy="correct the add action",
        )
    return values[name]


def parse_value(text: str | None, type: Primitive) -> Any:  # noqa: A002 (the schema's word)
    """The typed value of a partition string; null is None or the empty string."""
    if text is None or text == "":
        return None
    if type.decimal is not None:
        return _parse_decimal(text, type)
    parser = _PARSERS.get(type.name)
    if parser is None:
        raise LogFormatError(
            f"a partition column can't have the type {type.name}",
            cause="the Delta spec gives its values no text form",
            remedy="partition by a scalar column",
        )
    return parser(text, type)


def _malformed(text: str, kind: Primitive) -> NoReturn:
    raise LogFormatError(
        f"partition value {text!r:.80} is not a {kind.name}",
        cause="the log's text does not follow the Delta spec's form for the type",
        remedy="correct the value in the log, or the column's type",
    )


def _parse_boolean(text: str, kind: Primitive) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        _malformed(text, kind)
    return lowered == "true"


def _parse_integer(text: str, kind: Primitive) -> int:
    if _INTEGER.fullmatch(text) is None:
        _malformed(text, kind)
    value, limit = int(text), 1 << (INTEGER_BITS[kind.name] - 1)
    if not -limit <= value < limit:
        _malformed(text, kind)
    return value


def _parse_float(text: str, kind: Primitive) -> float:
    if _NUMBER.fullmatch(text) is None and _NOT_FINITE.fullmatch(text) is None:
        _malformed(text, kind)
    if kind.name == "double":
        return float(text)
    # As readers will represent it, so that comparisons here and of rows agree.
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    except OverflowError:
        _malformed(text, kind)


def _parse_decimal(text: str, kind: Primitive) -> Decimal:
    if _NUMBER.fullmatch(text) is None:
        _malformed(text, kind)
    value = Decimal(text)
    if not _fits(value, kind):
        _malformed(text, kind)
    return value


def _fits(value: Decimal, kind: Primitive) -> bool:
    precision, scale = kind.decimal or (0, 0)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return False
    if not value:
        return True
    trailing = next(n for n, digit in enumerate(reversed(digits)) if digit)
    return exponent + trailing >= -scale and value.adjusted() < precision - scale


def _parse_date(text: str, kind: Primitive) -> date:
    match = _DAY.fullmatch(text)
    if match is None:
        _malformed(text, kind)
    return _day(match, text, kind)


def _day(match: re.Match[str], text: str, kind: Primitive) -> date:
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        _malformed(text, kind)
    if not 1 <= year <= 9999:
        raise _unrepresentable(text, kind)
    try:
        return date(year, month, day)
    except ValueError:
        _malformed(text, kind)


def _unrepresentable(text: str, kind: Primitive) -> UnrepresentableValueError:
    return UnrepresentableValueError(
        f"partition value {text!r:.80} is a {kind.name} that deltasql can't hold",
        cause="Python's dates have the years 1 to 9999",
        remedy="read the table with Spark, or select other partitions",
    )


def _wall_clock(text: str, kind: Primitive) -> tuple[datetime, str | None]:
    """The date and time as written, and the zone's text."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        _malformed(text, kind)
    day = _day(match, text, kind)
    if match[4] is None:
        return datetime.combine(day, time()), None
    # The types have microseconds: anything finer is cut off, as in every reader.
    micros = int((match[7] or "0")[:6].ljust(6, "0"))
    try:
        clock = time(int(match[4]), int(match[5]), int(match[6]), micros)
    except ValueError:
        _malformed(text, kind)
    return datetime.combine(day, clock), match[8]


def _parse_timestamp(text: str, kind: Primitive) -> datetime:
    """Without a zone, the text is in the writer's, which is unknown: taken as UTC."""
    wall, zone = _wall_clock(text, kind)
    if zone is None or zone in ("Z", "z", "UTC"):
        return wall.replace(tzinfo=UTC)
    digits = zone[1:].replace(":", "")
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    offset = timedelta(hours=hours, minutes=minutes)
    if offset >= timedelta(hours=24) or minutes > 59:
        _malformed(text, kind)
    try:
        aware = wall.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))
        return aware.astimezone(UTC)
    except OverflowError:
        raise _unrepresentable(text, kind) from None


def _parse_timestamp_ntz(text: str, kind: Primitive) -> datetime:
    """A zone, which the spec does not provide for here, is ignored, as in Spark."""
    return _wall_clock(text, kind)[0]


def _parse_binary(text: str, _kind: Primitive) -> bytes:
    """One character per byte; a character beyond a byte shows that Spark wrote UTF-8."""
    if _ESCAPED_BYTES.fullmatch(text):
        return bytes.fromhex(text.replace("\\u00", ""))
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _parse_string(text: str, _kind: Primitive) -> str:
    return text


_PARSERS: dict[str, Callable[[str, Primitive], Any]] = {
    **dict.fromkeys(INTEGER_BITS, _parse_integer),
    "boolean": _parse_boolean,
    "float": _parse_float,
    "double": _parse_float,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": _parse_timestamp_ntz,
    "binary": _parse_binary,
    "string": _parse_string,
}


def render_value(value: Any, type: Primitive) -> str | None:  # noqa: A002
    """The text of a value for the log, where the empty string and empty bytes are null."""
    if value is None:
        return None
    renderer = _render_decimal if type.decimal is not None else _RENDERERS.get(type.name)
    text = renderer(value, type) if renderer is not None else None
    if text is None:
        raise ValidationError(
            f"{value!r:.80} can't be a partition value of type {type.name}",
            cause=f"it is a {value.__class__.__name__}, or out of the type's range",
            remedy="convert the value to the column's type, or partition by another column",
        )
    return text or None


def _render_boolean(value: Any, _kind: Primitive) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None


def _render_integer(value: Any, kind: Primitive) -> str | None:
    limit = 1 << (INTEGER_BITS[kind.name] - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
        return None
    return str(value)


def _render_float(value: Any, _kind: Primitive) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def _render_decimal(value: Any, kind: Primitive) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    return f"{number:f}" if _fits(number, kind) else None


def _render_date(value: Any, _kind: Primitive) -> str | None:
    if isinstance(value, datetime) or not isinstance(value, date):
        return None
    return value.isoformat()


def _render_timestamp(value: Any, _kind: Primitive) -> str | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    utc = value.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="microseconds") + "Z"


def _render_timestamp_ntz(value: Any, _kind: Primitive) -> str | None:
    if not isinstance(value, datetime) or value.tzinfo is not None:
        return None
    return value.isoformat(sep=" ")


def _render_binary(value: Any, _kind: Primitive) -> str | None:
    if not isinstance(value, bytes | bytearray | memoryview):
        return None
    text = bytes(value).decode("latin-1")
    if _ESCAPED_BYTES.fullmatch(text):
        return "".join(f"\\u{byte:04x}" for byte in bytes(value))
    return text


def _render_string(value: Any, _kind: Primitive) -> str | None:
    return value if isinstance(value, str) else None


_RENDERERS: dict[str, Callable[[Any, Primitive], str | None]] = {
    **dict.fromkeys(INTEGER_BITS, _render_integer),
    "boolean": _render_boolean,
    "float": _render_float,
    "double": _render_float,
    "date": _render_date,
    "timestamp": _render_timestamp,
    "timestamp_ntz": _render_timestamp_ntz,
    "binary": _render_binary,
    "string": _render_string,
}
