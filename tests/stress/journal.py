"""What a writer says about its own commits, on disk before and after each of them.

A line `begin` is there before the commit is sent; then `done` with the versions, `refused`
with the error, or nothing, when the writer was killed. The clock is the machine's monotonic
one, which all processes share.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(slots=True)
class Intent:
    """A commit, to one table or several, as its writer saw it.

    `tables` has the actions of each table (JSON objects), or None where the library made
    them; `partitions` the partition each table's commit read, if any. `app` is the txn.
    """

    tag: str
    kind: str
    began: int
    tables: Mapping[str, Sequence[Mapping[str, Any]] | None]
    partitions: Mapping[str, int] = field(default_factory=dict)
    transaction: str | None = None
    app: tuple[str, int] | None = None
    ended: int | None = None
    versions: Mapping[str, int] | None = None
    refused: str | None = None
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """The live files that a reader saw at a version."""

    table: str
    version: int
    paths: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Versions that a reader saw at one instant."""

    versions: Mapping[str, int]


class Journal:
    """One writer's file, appended to over restarts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # A kill may have torn the last line: begin on a fresh one.
        self._write(b"\n")

    def begin(self, kind: str, tables: Mapping[str, Any], *, tag: str, **details: Any) -> None:
        self._line(do="begin", tag=tag, kind=kind, at=time.monotonic_ns(), tables=tables, **details)

    def done(self, tag: str, versions: Mapping[str, int]) -> None:
        self._line(do="done", tag=tag, at=time.monotonic_ns(), versions=dict(versions))

    def refused(self, tag: str, error: BaseException) -> None:
        self._line(do="refused", tag=tag, error=f"{type(error).__name__}: {error}")

    def unknown(self, tag: str) -> None:
        self._line(do="unknown", tag=tag)

    def look(self, table: str, version: int, paths: str) -> None:
        self._line(do="look", table=table, version=version, paths=paths)

    def cut(self, versions: Mapping[str, int]) -> None:
        self._line(do="cut", versions=dict(versions))

    def note(self, **numbers: Any) -> None:
        self._line(do="note", **numbers)

    def failed(self, trace: str) -> None:
        self._line(do="failed", trace=trace)

    def close(self) -> None:
        os.close(self._file)

    def _line(self, **content: Any) -> None:
        self._write(json.dumps(content).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        os.write(self._file, data)
        os.fsync(self._file)


@dataclass(slots=True)
class Told:
    """Everything that the writers of a run said."""

    intents: dict[str, Intent] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, *paths: Path) -> Self:
        told = cls()
        for path in paths:
            for line in _lines(path):
                told._take(line)
        return told

    @property
    def done(self) -> list[Intent]:
        return [intent for intent in self.intents.values() if intent.versions is not None]

    @property
    def refused(self) -> list[Intent]:
        return [intent for intent in self.intents.values() if intent.refused is not None]

    @property
    def open(self) -> list[Intent]:
        """Commits of which their writer never learned the outcome."""
        return [
            intent
            for intent in self.intents.values()
            if intent.versions is None and intent.refused is None
        ]

    def _take(self, line: dict[str, Any]) -> None:
        match line.pop("do"):
            case "begin":
                app = line.pop("app", None)
                began = line.pop("at")
                intent = Intent(**line, began=began, app=tuple(app) if app else None)
                assert intent.tag not in self.intents
                self.intents[intent.tag] = intent
            case "done":
                intent = self.intents[line["tag"]]
                intent.ended, intent.versions = line["at"], line["versions"]
            case "refused":
                # One that failed before it was sent has no begin.
                if line["tag"] in self.intents:
                    self.intents[line["tag"]].refused = line["error"]
            case "unknown":
                self.intents[line["tag"]].unknown = True
            case "look":
                self.looks.append(Look(**line))
            case "cut":
                self.cuts.append(Cut(**line))
            case "note":
                self.notes.append(line)
            case "failed":
                self.failures.append(line["trace"])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for text in path.read_text().split("\n"):
        if not text:
            continue
        try:
            yield json.loads(text)
        except ValueError:
            # Torn by a kill: that commit was not sent, or its outcome is not known.
            continue


def new_tag(slot: object) -> str:
    """A name for a commit that no other has."""
    return f"{slot}-{uuid.uuid4().hex}"
