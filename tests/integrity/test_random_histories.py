"""Whatever commits do to files: a check finds nothing, and a rebuild changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from deltasql.integrity import commits as replayed
from deltasql.integrity.checking import check
from deltasql.integrity.rebuilding import rebuild
from deltasql.mirror.checkpoints import soundness
from deltasql.mirror.checkpoints.soundness import must_be_sound
from deltasql.mirror.engine import Target
from deltasql.objectstore import ObjectStore, open_store
from deltasql.spec.actions import Action, AddFile
from deltasql.store.connect import open_log
from deltasql.store.interface import LogStore
from deltasql.testing.contracts.replay import _COMMITS, _act
from deltasql.testing.proposals import commit, create


@pytest.fixture
def store(store_url: str) -> Iterator[LogStore]:
    opened = open_log(store_url)
    yield opened
    opened.close()


@pytest.mark.parametrize("window", [1, 1_000])
def test_random_histories(store: LogStore, tmp_path: Path, monkeypatch, window: int):
    """Also with windows and slices so small that everything crosses them."""
    monkeypatch.setattr(soundness, "_MOST_VERSIONS", window)
    monkeypatch.setattr(replayed, "_SLICE", window)
    objects = open_store(tmp_path.as_uri(), {})

    @settings(max_examples=8)
    @given(commits=_COMMITS)
    def compare(commits: list[dict[str, tuple[str, str]]]) -> None:
        _compare(store, objects, commits)

    compare()


def _compare(
    store: LogStore, objects: ObjectStore, commits: list[dict[str, tuple[str, str]]]
) -> None:
    table_id = create(store)
    (place,) = (table.location for table in store.tables() if table.table_id == table_id)
    target = Target(table_id, "t", place)
    live: dict[tuple[str, str], tuple[AddFile, int]] = {}
    for version, steps in enumerate(commits, start=1):
        actions: list[Action] = []
        for path, (step, vector) in steps.items():
            actions.extend(_act(live, path, vector, step=step, version=version))
        commit(store, table_id, *actions)
    last = len(commits)
    before = sorted(map(repr, store.file_rows(table_id, last)))
    assert check(store, objects, target).findings == []
    # Forwards from the beginning, and backwards from what the check has proven.
    for version in (last, *range(last)):
        must_be_sound(store, table_id, version)
    rebuild(store, objects, target)
    assert sorted(map(repr, store.file_rows(table_id, last))) == before
    for version in range(last + 1):
        must_be_sound(store, table_id, version)
    assert check(store, objects, target).findings == []
