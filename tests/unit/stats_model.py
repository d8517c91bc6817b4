"""A stats writer by brute force, with the liberties that the spec and real writers take."""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.unit.predicate_model import TYPES, Row


@dataclass(frozen=True)
class Writer:
    """How a writer goes about it."""

    offset_hours: int = 0
    doubled_decimals: bool = False
    tight: bool = True
    left_out: frozenset[tuple[str, tuple[str, ...]]] = frozenset()


WRITERS = st.builds(
    Writer,
    offset_hours=st.sampled_from([0, -8, 5]),
    doubled_decimals=st.booleans(),
    tight=st.booleans(),
    left_out=st.frozensets(
        st.tuples(
            st.sampled_from(["minValues", "maxValues", "nullCount"]), st.sampled_from(list(TYPES))
        ),
        max_size=3,
    ),
)


def write_stats(rows: list[Row], writer: Writer = Writer()) -> str:  # noqa: B008
    stats: dict[str, Any] = {"numRecords": len(rows), "tightBounds": writer.tight}
    for path, name in TYPES.items():
        values = [row[path] for row in rows if row[path] is not None]
        _put(stats, "nullCount", path, len(rows) - len(values), writer)
        low, high = _extremes(values, name)
        if low is not None:
            _put(stats, "minValues", path, _shown(low, name, writer), writer)
        if high is not None:
            _put(stats, "maxValues", path, _shown(high, name, writer), writer)
    # Numbers go in as marked strings, so that json does not touch their digits.
    return re.sub(r'"#([^"]*)#"', r"\1", json.dumps(stats))


def _put(stats: Any, part: str, path: tuple[str, ...], value: Any, writer: Writer) -> None:
    if (part, path) in writer.left_out:
        return
    place = stats.setdefault(part, {})
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = value


def _extremes(values: list[Any], name: str) -> tuple[Any, Any]:
    if name in ("float", "double"):
        values = [value for value in values if not math.isnan(value)]
    if not values or name == "binary":
        return None, None
    low, high = min(values), max(values)
    if name == "string":
        return low[:32], _cut_up(high)
    if name in ("float", "double"):
        return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)
    return low, high


def _cut_up(text: str) -> str | None:
    if len(text) <= 32:
        return text
    cut = text[:32] + "\U0010ffff"
    return cut if cut >= text else None


def _shown(value: Any, name: str, writer: Writer) -> Any:
    match value:
        case Decimal():
            exact = f"#{value:f}#"
            scale = 2 if name == "decimal(10,2)" else 10
            unscaled = int(value.scaleb(scale)) if abs(value) < 10**15 else int(value) * 10**scale
            return f"#{float(unscaled) / 10.0**scale!r}#" if writer.doubled_decimals else exact
        case float():
            return f"#{_shortest_single(value) if name == 'float' else repr(value)}#"
        case datetime():
            return _millis(value, writer)
        case bool() | int() | str():
            return value
    return value.isoformat()


def _shortest_single(value: float) -> str:
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(t for t in texts if struct.pack("f", _clamped(float(t))) == struct.pack("f", value))


def _clamped(value: float) -> float:
    largest = 3.4028234663852886e38
    return max(-largest, min(largest, value))


def _millis(value: datetime, writer: Writer) -> str:
    cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if value.tzinfo is None:
        return cut.isoformat(timespec="milliseconds")
    if writer.offset_hours == 0:
        return cut.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    zone = timezone(timedelta(hours=writer.offset_hours))
    return cut.astimezone(zone).isoformat(timespec="milliseconds")
