"""Log lines: one a record, whole as JSON, without secrets or control characters."""

import json
import logging

import pytest

from deltasql.errors import DatabaseError
from deltasql.secrecy import redacted
from deltasql.telemetry.logs import ConsoleFormatter, JsonFormatter, bound

SECRET = "s3cret"


def record(message: str, *args: object, **facts: object) -> logging.LogRecord:
    made = logging.LogRecord("deltasql.commit", logging.INFO, "x.py", 1, message, args, None)
    vars(made).update(facts)
    return made


def test_json_has_the_facts():
    error = DatabaseError("it broke", cause="no disk")
    made = record("said %s", "it", table="a.b", version=7, commit_id="c", attempt=2, error=error)
    line = json.loads(JsonFormatter().format(made))
    assert {key: line[key] for key in ("level", "logger", "message")} == {
        "level": "info",
        "logger": "deltasql.commit",
        "message": "said it",
    }
    assert (line["table"], line["version"], line["commit_id"], line["attempt"]) == (
        "a.b",
        7,
        "c",
        2,
    )
    assert line["error"] == "DatabaseError: it broke: no disk"


def test_bound_facts_belong_to_the_block():
    with bound(table="a.b"), bound(key="k"):
        inside = json.loads(JsonFormatter().format(record("x")))
        own = json.loads(JsonFormatter().format(record("x", table="other")))
    assert (inside["table"], inside["key"]) == ("a.b", "k")
    assert own["table"] == "other"
    assert "table" not in json.loads(JsonFormatter().format(record("x")))


def test_console_is_one_line():
    line = ConsoleFormatter().format(record("a\nb \x1b[31m", table="t\r\nx", version=1))
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.endswith("version=1")


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{SECRET}@db/lake",
        f"password={SECRET}",
        f"sslpassword: {SECRET}, x",
        f"s3.secret_access_key={SECRET}",
        f"AZURE account_key = {SECRET}",
    ],
)
@pytest.mark.parametrize("formatter", [JsonFormatter(), ConsoleFormatter()])
def test_secrets_are_taken_out(formatter, text):
    assert SECRET not in redacted(text)
    made = record("failed: %s", text, error=text, key=text)
    line = formatter.format(made)
    assert SECRET not in line
    if isinstance(formatter, JsonFormatter):
        assert json.loads(line)["key"]
