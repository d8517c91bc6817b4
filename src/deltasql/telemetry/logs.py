"""Logs, as lines for people or as JSON for programs.

Modules use the standard library's loggers, below `deltasql`, and give facts as `extra`: table,
table_id, version, key, attempt, error, commit_id. The commit id is `txnId` of the commit file, the
same in every line about a commit; all versions of a transaction over several tables share one. If
it carries a trace, the line has its trace_id, too. Values that may contain a password are not
logged; as a safeguard, anything that looks like one is removed here.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TextIO
from weakref import WeakKeyDictionary

from deltasql.errors import DeltaSqlError
from deltasql.secrecy import redacted
from deltasql.telemetry import tracing

_bound: ContextVar[Mapping[str, Any]] = ContextVar("deltasql_log_facts", default={})  # noqa: B039
FACTS: Final = (
    "table",
    "table_id",
    "version",
    "commit_id",
    "trace_id",
    "key",
    "attempt",
    "operation",
    "error",
)
# What is known of a failure where it happens, for whoever logs it.
_known: WeakKeyDictionary[DeltaSqlError, Mapping[str, Any]] = WeakKeyDictionary()
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def configure(
    *, form: str = "console", level: str = "warning", stream: TextIO | None = None
) -> None:
    """Make deltasql's loggers write to a stream, by default stderr; call again to change it."""
    logger = logging.getLogger("deltasql")
    for handler in [item for item in logger.handlers if isinstance(item, _Handler)]:
        logger.removeHandler(handler)
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


@contextmanager
def bound(**facts: Any) -> Iterator[None]:
    """Facts added to every line that this thread logs inside the block."""
    token = _bound.set({**_bound.get(), **facts})
    try:
        yield
    finally:
        _bound.reset(token)


def attach(error: DeltaSqlError, facts: Mapping[str, Any]) -> None:
    """Add facts to every line that is logged about an error."""
    _known[error] = facts


class _Handler(logging.StreamHandler[TextIO]):
    """Our handler, distinguishable from the application's."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps({key: _clean(value) for key, value in line.items()})


class ConsoleFormatter(logging.Formatter):
    """One line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        message = record.getMessage()
        facts = _facts(record)
        for name in ("table", "error"):
            # Don't repeat what the message already says.
            if str(facts.get(name, "")) in message:
                facts.pop(name, None)
        text = f"{_time(record)} {record.levelname:<7} {message}"
        text += "".join(f" {name}={value}" for name, value in facts.items())
        line = redacted(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
        if record.exc_info:
            line += "\n" + redacted(self.formatException(record.exc_info))
        return line


def _clean(value: Any) -> Any:
    return value if isinstance(value, int) else redacted(str(value))


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    error = getattr(record, "error", None)
    told = _known.get(error, {}) if isinstance(error, DeltaSqlError) else {}
    facts: dict[str, Any] = {}
    around = _bound.get()
    for name in FACTS:
        # What was known where it failed is closer to the truth.
        value = told.get(name)
        value = getattr(record, name, None) if value is None else value
        value = around.get(name) if value is None else value
        if name == "trace_id":
            value = tracing.trace_id_of(facts.get("commit_id"))
        if isinstance(value, DeltaSqlError):
            value = f"{type(value).__name__}: {value.problem}" + (
                f": {value.cause}" if value.cause else ""
            )
        if value is not None:
            facts[name] = value
    return facts


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
