"""A clone beside whoever deletes its source's files: one of the two wins, and says so."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.errors import TableNotFoundError, ValidationError
from deltasql.lake.table import Table
from deltasql.lake.upkeep import cloning
from deltasql.maintenance.vacuuming import journal
from deltasql.spec.paths import location_uri
from deltasql.store.postgres import writer
from tests.maintenance.tables import AT_ONCE, SCHEMA, churned, folder, ids, make_old, rows


@pytest.fixture
def other(lake_url: str, tmp_path: Path, lake: deltasql.Lake):
    """The same lake, as another process has it."""
    del lake  # made first
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as opened:
        yield opened


def _file(table: Table, name: str, number: int) -> dict[str, object]:
    path = folder(table) / name
    pq.write_table(rows(number), path)
    return {
        "path": name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 1,
        "dataChange": True, "stats": '{"numRecords":1}',
    }  # fmt: skip


def _remove(added: dict[str, object]) -> dict[str, object]:
    return {"remove": {"path": added["path"], "dataChange": True, "deletionTimestamp": 1}}


def test_a_clone_made_between_two_batches_of_a_vacuum_keeps_its_files(
    lake: deltasql.Lake, other: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal, "_BATCH", 1)
    table = lake.create_table("a.t", SCHEMA)
    for number in range(4):
        added = _file(table, f"f{number}.parquet", number)
        table.commit([{"add": added}])
        table.commit([_remove(added)])
    clones: list[Table] = []
    kept: list[int] = []

    def clone_the_rest(_: int) -> None:
        if clones:
            return
        for number in range(4):
            if (folder(table) / f"f{number}.parquet").exists():
                version = 1 + 2 * number
                clones.append(other.table("a.t").clone(f"a.c{number}", version=version))
                kept.append(number)

    table.vacuum(**AT_ONCE, dry_run=False, progress=clone_the_rest)
    assert len(kept) == 3
    assert [ids(clone.scan().to_arrow()) for clone in clones] == [[number] for number in kept]


def test_an_orphan_that_a_table_names_meanwhile_stays(
    lake: deltasql.Lake, other: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal, "_BATCH", 1)
    table, second = lake.create_table("a.t", SCHEMA), lake.create_table("a.u", SCHEMA)
    uuid = "00000000-0000-0000-0000-00000000000"
    orphans = [_file(table, f"part-00000-{uuid}{number}.parquet", number) for number in range(3)]
    for item in orphans:
        make_old(folder(table) / str(item["path"]), hours=48)
    named: list[str] = []

    def name_one(_: int) -> None:
        if not named:
            added = next(item for item in orphans if (folder(table) / str(item["path"])).exists())
            named.append(str(added["path"]))
            path = f"file://{folder(table)}/{added['path']}"
            other.table(second.name).commit([{"add": {**added, "path": path}}])

    found = table.vacuum(**AT_ONCE, dry_run=False, progress=name_one)
    assert found.orphans == 2
    assert (folder(table) / named[0]).exists()
    assert len(second.scan().to_arrow()) == 1


def test_the_source_is_not_purged_while_it_is_cloned(
    lake: deltasql.Lake, other: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1, 2))
    refused: list[str] = []
    must_exist = cloning.must_exist

    def purge_then(*args: object, **kwargs: object) -> None:
        must_exist(*args, **kwargs)  # type: ignore[arg-type]
        with pytest.raises(ValidationError, match="held") as caught:
            other.drop_table("a.t", purge=True)
        refused.append(str(caught.value))

    monkeypatch.setattr(cloning, "must_exist", purge_then)
    clone = table.clone("a.clone")
    assert "clone to a.clone" in refused[0]
    assert ids(clone.scan().to_arrow()) == [1, 2]
    assert other.dropped() == [], "what can't be purged is not dropped"
    assert ids(other.table("a.t").scan().to_arrow()) == [1, 2]


def test_a_source_that_was_dropped_meanwhile_has_no_clone(
    lake: deltasql.Lake, other: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1, 2))
    must_exist = cloning.must_exist

    def drop_then(*args: object, **kwargs: object) -> None:
        must_exist(*args, **kwargs)  # type: ignore[arg-type]
        other.drop_table("a.t")

    monkeypatch.setattr(cloning, "must_exist", drop_then)
    with pytest.raises(TableNotFoundError, match="dropped"):
        table.clone("a.clone")
    assert lake.tables() == []
    lake.purge("a.t")


def test_a_table_whose_files_others_name_by_creation_must_be_there(
    lake: deltasql.Lake, other: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    """As Spark's clones come: version 0 with absolute paths, and no word of a source."""
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    (add,) = table.snapshot().adds()
    actions = cloning._actions(
        table.snapshot(), [cloning._absolute(add, location_uri(table.objects.location))]
    )
    create = lake.commits.create

    def drop_then(*args: object, **kwargs: object) -> object:
        other.drop_table("a.t", purge=True)
        return create(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.commits, "create", drop_then)
    with pytest.raises(TableNotFoundError, match="dropped"):
        lake.create_with(
            "a.clone", lake.place("a.clone"), actions, operation="CLONE", operation_params={}
        )
    assert lake.tables() == []


def test_of_a_clone_and_a_purge_at_once_one_wins(lake: deltasql.Lake, other: deltasql.Lake):
    outcomes: set[tuple[bool, bool]] = set()
    for number in range(8):
        name = f"a.t{number}"
        table = lake.create_table(name, SCHEMA)
        table.append(rows(*range(50)))
        start = Barrier(2)

        def clone(table: Table = table, number: int = number, start: Barrier = start) -> bool:
            start.wait()
            try:
                table.clone(f"a.c{number}")
            except (TableNotFoundError, ValidationError):
                return False
            return True

        def purge(name: str = name, start: Barrier = start) -> bool:
            start.wait()
            try:
                other.drop_table(name, purge=True)
            except ValidationError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            cloned, purged = pool.submit(clone), pool.submit(purge)
        outcomes.add((cloned.result(), purged.result()))
        if cloned.result():
            assert ids(lake.table(f"a.c{number}").scan().to_arrow()) == list(range(50))
        assert (folder(table).exists() and any(folder(table).iterdir())) != purged.result()
    assert outcomes <= {(True, False), (False, True)}


def test_a_held_version_keeps_a_table_from_being_purged(lake: deltasql.Lake, other: deltasql.Lake):
    table = churned(lake)
    with table.pin(version=1) as held:
        with pytest.raises(ValidationError, match="version 1 is held"):
            other.drop_table("a.t", purge=True)
        other.drop_table("a.t")
        with pytest.raises(ValidationError, match="version 1 is held"):
            other.purge("a.t")
        assert ids(held.scan().to_arrow()) == [0]
    other.purge("a.t")
    assert other.dropped() == []


def test_a_table_with_clones_is_neither_purged_nor_dropped(lake: deltasql.Lake):
    table = churned(lake)
    clone = table.clone("a.clone")
    with pytest.raises(ValidationError, match="other tables name 1"):
        lake.drop_table("a.t", purge=True)
    assert lake.dropped() == []
    table.append(rows(9))
    lake.drop_table("a.clone", purge=True)
    assert not folder(clone).exists() or not any(folder(clone).iterdir())
    lake.drop_table("a.t", purge=True)
    assert (lake.tables(), lake.dropped()) == ([], [])


@pytest.mark.postgres
def test_a_clone_under_way_holds_up_a_drop_and_no_append(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    location = str(tmp_path / "lake")
    created, go_on = Event(), Event()
    take_place = writer.take_place

    def pause_then(*args: object, **kwargs: object) -> None:
        if threading.current_thread().name.startswith("clone"):
            created.set()
            assert go_on.wait(20)
        take_place(*args, **kwargs)  # type: ignore[arg-type]

    with (
        deltasql.connect(postgres_url, location=location) as lake,
        deltasql.connect(postgres_url, location=location) as other,
        ThreadPoolExecutor(1, "clone") as cloning_thread,
        ThreadPoolExecutor(1) as dropping_thread,
    ):
        table = lake.create_table("a.t", SCHEMA)
        table.append(rows(1))
        monkeypatch.setattr(writer, "take_place", pause_then)
        clone = cloning_thread.submit(table.clone, "a.clone")
        assert created.wait(20)
        other.table("a.t").append(rows(2))
        dropped = dropping_thread.submit(other.drop_table, "a.t")
        time.sleep(0.3)
        assert not dropped.done(), "it waits for the clone"
        go_on.set()
        assert ids(clone.result(20).scan().to_arrow()) == [1]
        dropped.result(20)
        with pytest.raises(ValidationError, match="other tables name 1"):
            other.purge("a.t")
