"""What stock Delta came to in each case, written down: it takes half of the time to ask it.

An answer belongs to a case, to the releases of Spark and Delta that gave it, and to the kind of
machine, for the sizes of compressed files; wherever there is none, stock Delta is asked.
`make test-full` asks in each case, and finds out whether what is written down is still so.
`make stock-answers` writes it down anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyspark

from tests.parts.spark import ARTIFACT
from tests.sizes import FULL
from tests.spark.sql.cases import Case

FILE = Path(__file__).with_name("stock_answers.json")
IS_WRITING = os.environ.get("DELTASQL_STOCK_ANSWERS") == "write"


class StockAnswers:
    """By case; each as JSON has it, for ours to be compared with."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
        self._asked: dict[str, Any] = {}

    def check(self, case: Case, ours: Any, ask: Callable[[], Any]) -> None:
        """Ours must come to the same as stock Delta, which is asked wherever that is in doubt."""
        key = _key(case)
        if not (FULL or IS_WRITING) and self._known.get(key) == ours:
            return
        self._asked[key] = asked = ask()
        assert ours == asked
        if not IS_WRITING:
            assert self._known.get(key) in (None, asked), "run: make stock-answers"

    def of(self, case: Case) -> list[Any]:
        """What is written down of a case's statement and of its check, where that is known."""
        found = self._known.get(_key(case), {})
        return [found.get(part) for part in ("outcome", "checked")]

    def save(self) -> None:
        """Keep what was asked in this run, and nothing else, if that is what the run is for."""
        if IS_WRITING:
            lines = (f"{json.dumps(key)}: {json.dumps(self._asked[key])}" for key in self._asked)
            FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _key(case: Case) -> str:
    made = astuple(case), pyspark.__version__, ARTIFACT[-1], platform.machine()
    return f"{case.name} {hashlib.sha256(repr(made).encode()).hexdigest()[:16]}"
