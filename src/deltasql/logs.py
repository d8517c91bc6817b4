"""Logs: what modules say, as lines for people or as JSON for programs.

Modules use the standard library's loggers, below `deltasql`, and give facts as `extra`: table,
version, key, attempt, error, commit_id. A commit's id is the same in every line about it, in
`dl_table_versions` and, as `txnId`, in the commit file. Values that may hold a password are not
logged; what looks like one is taken out here all the same.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from deltasql.errors import DeltaSqlError

FACTS: Final = ("table", "version", "commit_id", "key", "attempt", "operation", "error")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SECRETS: Final = (
    re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@"),
    re.compile(
        r"(?i)\b((?:ssl)?password|secret[\w.]*|[\w.]*access_key|session_token|account_key|sas_key)"
        r"(\s*[=:]\s*)[^\s,;&]+"
    ),
)
_MASKS: Final = (r"\1:***@", r"\1\2***")


def configure(
    *, form: str = "console", level: str = "warning", stream: TextIO | None = None
) -> None:
    """Let deltasql's loggers write to a stream, by default stderr; again to change it."""
    logger = logging.getLogger("deltasql")
    for handler in [item for item in logger.handlers if isinstance(item, _Handler)]:
        logger.removeHandler(handler)
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, to be told from the application's."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

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
        return redact(json.dumps(line, default=str))


class ConsoleFormatter(logging.Formatter):
    """One line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        facts = "".join(f" {name}={value}" for name, value in _facts(record).items())
        text = f"{_time(record)} {record.levelname:<7} {record.getMessage()}{facts}"
        line = redact(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
        if record.exc_info:
            line += "\n" + redact(self.formatException(record.exc_info))
        return line


def redact(text: str) -> str:
    """The text without what looks like a password."""
    for pattern, mask in zip(_SECRETS, _MASKS, strict=True):
        text = pattern.sub(mask, text)
    return text


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts = {}
    for name in FACTS:
        value = getattr(record, name, None)
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
