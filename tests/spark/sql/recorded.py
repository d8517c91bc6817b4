"""What stock Delta answered, written down: its releases are pinned, so it need not be asked again.

`stock_answers.json`, where it is there, has answers by a digest of everything they follow from:
the case, the releases of Spark and Delta, the session's settings. Whatever changes, the digest is
unknown then, and stock Delta itself is asked. `make test-full` asks it always, and fails where
the file says something else. After a change of cases or releases, write the file anew:

    DELTASQL_RECORD=1 .venv/bin/pytest -n 0 tests/spark/sql/test_statements.py
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.parts import spark as spark_part
from tests.sizes import FULL
from tests.spark.conftest import quick
from tests.spark.sql.cases import Case

FILE = Path(__file__).with_name("stock_answers.json")
RECORDS = os.environ.get("DELTASQL_RECORD") == "1"
# How Spark computes is not what it answers.
_ASIDE = "spark.sql.codegen."


class StockAnswers:
    """Answers of stock Delta by case, known or asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
        self._used: set[str] = set()

    def answer(self, case: Case, ask: Callable[[], Any]) -> Any:
        """What stock Delta makes of a case."""
        key = _digest(case)
        self._used.add(key)
        if key in self._known and not (FULL or RECORDS):
            return self._known[key]
        found = plain(ask())
        if not RECORDS:
            assert self._known.get(key, found) == found, f"{FILE.name} is wrong about {case.name}"
        self._known[key] = found
        self._keep(self._known)
        return found

    def end(self) -> None:
        """Of answers that nobody asks for any more, none stays."""
        self._keep({key: self._known[key] for key in self._used})

    def _keep(self, answers: dict[str, Any]) -> None:
        if RECORDS:
            lines = [f"{json.dumps(key)}: {json.dumps(answers[key])}" for key in sorted(answers)]
            FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def plain(outcome: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(outcome, default=asdict))


def _digest(case: Case) -> str:
    settings = quick(Path("/work"))
    told = {
        "case": asdict(case),
        "spark": version("pyspark"),
        "delta": spark_part.ARTIFACT,
        "settings": {key: settings[key] for key in settings if not key.startswith(_ASIDE)},
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:20]
