"""Failures beside the commit itself: in our own code after it, and in the object store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltasql.commit.states import StateCache
from deltasql.errors import DatabaseError
from deltasql.mirror.engine import MirrorEngine
from deltasql.testing.faulty_store import Call, Fault, FaultyStore
from tests.faults.matrix.verbs import Place

# What runs after a commit, by the name of its column in the matrix.
AFTERWARDS = {"state": (StateCache, "refresh"), "mirror": (MirrorEngine, "after_commit")}


def fail_afterwards(monkeypatch: pytest.MonkeyPatch, place: Place, where: str) -> None:
    """From the first commit on, what follows a commit raises."""
    owner, name = AFTERWARDS[where]
    call = getattr(owner, name)
    heads = {name: place.lake.table(name).version for name in (place.name("a"),)}

    def run(*arguments: Any, **options: Any) -> Any:
        if _has_committed(place, heads):
            raise DatabaseError("the database went away just now")
        return call(*arguments, **options)

    monkeypatch.setattr(owner, name, run)


def fail_objects(place: Place, fails: Callable[[Call], bool]) -> list[Call]:
    """The place's object stores fail such calls from now on; they are written down."""
    failed: list[Call] = []

    def schedule(call: Call) -> Fault | None:
        if not fails(call):
            return None
        failed.append(call)
        return Fault.BEFORE

    place.lake.objects.wrap(lambda store: FaultyStore(store, schedule))
    return failed


def _has_committed(place: Place, heads: dict[str, int]) -> bool:
    known = {table.name: table.table_id for table in place.lake.tables()}
    if place.name("new") in known or place.name("old") in known:
        return True
    found = place.lake.store.heads()
    return any(found[known[name]].version > version for name, version in heads.items())
