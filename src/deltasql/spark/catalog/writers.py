"""Statements that write, as vacuum and the database's permissions need to know them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


class Writers:
    """Answers to statements that begin to write, and to those that have ended."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        self._writing: dict[str, AbstractContextManager[None]] = {}

    @property
    def answers(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """By verb."""
        return {"write": self._begin, "written": self.end}

    def _begin(self, question: Mapping[str, Any]) -> None:
        """Note that a statement begins; `DatabaseError` if it could never commit what it writes."""
        self._lake.commits.rights.check()
        writing = self._lake.presence.writing()
        writing.__enter__()
        with self._lock:
            self._writing[question["write"]] = writing

    def end(self, question: Mapping[str, Any]) -> None:
        """Note that it has committed, failed, or was forgotten."""
        with self._lock:
            writing = self._writing.pop(question.get("write", ""), None)
        if writing is not None:
            writing.__exit__(None, None, None)

    def close(self) -> None:
        """End all writing."""
        for name in list(self._writing):
            self.end({"write": name})
