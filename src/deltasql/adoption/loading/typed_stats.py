"""Stats that a checkpoint has only in typed form, as the JSON text of commits (rule 28)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deltasql.spec import codec


def stats_texts(column: pa.StructArray) -> list[str | None]:
    """The JSON of each row of `stats_parsed`."""
    return [None if item is None else _text(item) for item in column.to_pylist()]


def _text(stats: dict[str, Any]) -> str | None:
    kept = _plain(stats)
    return codec.dumps(kept).decode() if kept else None


def _plain(value: Any) -> Any:
    match value:
        case dict():
            found = {name: _plain(item) for name, item in value.items()}
            return {name: item for name, item in found.items() if item not in (None, {})}
        case Decimal():
            # As a JSON number: readers of decimals take the nearest double, with some slack.
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            return _moment(value)
        case date():
            return value.isoformat()
        case bytes():
            return None
        case float() if value != value or value in (float("inf"), float("-inf")):
            return None
    return value


def _moment(value: datetime) -> str:
    """Milliseconds, truncated, as in stats."""
    cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if cut.tzinfo is None:
        return cut.isoformat(timespec="milliseconds")
    return cut.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
