"""Adopted tables whose history begins with a checkpoint: no commit tells what they began with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from deltasql.delta_log.names import commit_name
from deltasql.errors import DamagedLogError
from deltasql.mirror.checkpoints.soundness import must_be_sound
from deltasql.store.checking.interface import Origin
from tests.integrity.conftest import checkpoint, damage, ids, log_folder, make, rows

FIRST = 4


def adopt(lake: Any) -> Any:
    """A table whose oldest commits were cleaned up, so that it begins at its first checkpoint."""
    made = make(lake, "made")
    place = Path(made.location.removeprefix("file://"))
    lake.drop_table("made")
    copy = place.parent / "copy"
    shutil.copytree(place, copy)
    for version in range(FIRST + 1):
        (copy / "_delta_log" / commit_name(version)).unlink()
    table = lake.adopt(copy.as_uri(), "t")
    assert lake.store.head(table.table_id).earliest_version == FIRST
    lake.mirror.run(once=True)
    return table


def lose_one(lake: Any, table: Any) -> None:
    damage(
        lake,
        "DELETE FROM dl_active_files WHERE version = 4 AND path = (SELECT min(path) FROM "
        f"dl_active_files WHERE version = 4 AND table_id = {table.table_id})",
    )


def test_the_first_state_is_written_down_and_checked(lake):
    table = adopt(lake)
    (known,) = [i for i in lake.store.trusted(table.table_id) if i.origin is Origin.ADOPTED]
    assert (known.version, known.sums.files) == (FIRST, 4)
    report = lake.check("t").tables["t"]
    assert report.ok
    assert report.since == FIRST
    whole = ids(table)
    lose_one(lake, table)
    assert ids(table) != whole
    found = lake.check("t").tables["t"]
    assert {finding.kind for finding in found.findings} >= {"first state"}
    with pytest.raises(DamagedLogError):
        table.mirror.repair()
    # The mirror still has the checkpoint that it was adopted with.
    lake.rebuild("t")
    assert ids(table) == whole
    assert lake.check("t").ok
    assert table.mirror.repair().ok
    table.append(rows(60))
    assert lake.check("t", full=True).ok


def test_metadata_of_the_first_state_comes_from_the_mirror(lake):
    table = adopt(lake)
    whole = ids(table)
    place = f"WHERE version = {FIRST} AND table_id = {table.table_id}"
    damage(lake, f"UPDATE dl_metadata_updates SET action = '{{}}' {place}")
    found = lake.check("t").tables["t"]
    assert {finding.kind for finding in found.findings} >= {"first state"}
    lake.rebuild("t")
    assert lake.check("t", full=True).ok
    assert ids(table) == whole


def test_a_first_state_that_nobody_has_is_not_made_up(lake):
    table = adopt(lake)
    whole = ids(table)
    damage(lake, "DELETE FROM dl_active_files WHERE version = 9")
    checkpoint(table, FIRST).unlink()
    # What comes after the first state is in the commits.
    lake.rebuild("t")
    assert ids(table) == whole
    lose_one(lake, table)
    before = ids(table)
    with pytest.raises(DamagedLogError, match="adopted with"):
        lake.rebuild("t")
    assert ids(table) == before
    assert not lake.check("t").ok


def test_a_table_adopted_by_an_older_release(lake):
    """Nobody wrote its first state down: what is there is believed, and from then on kept."""
    table = adopt(lake)
    damage(lake, "DELETE FROM dl_trusted_versions")
    assert lake.check("t").ok
    damage(lake, "DELETE FROM dl_trusted_versions")
    must_be_sound(lake.store, table.table_id, table.version)
    assert Origin.ADOPTED in {item.origin for item in lake.store.trusted(table.table_id)}
    lose_one(lake, table)
    with pytest.raises(DamagedLogError):
        table.mirror.repair()
    assert len(list(log_folder(table).glob("*.json"))) == table.version - FIRST
