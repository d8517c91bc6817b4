"""A lost database, made anew from what lies below a location."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from deltasql.lake.locations import breadth_of
from deltasql.lake.upkeep import recovering
from deltasql.objectstore import open_store
from tests.adoption.dying import recover_and_die
from tests.adoption.logs import METADATA, PROTOCOL, add, commit_file, write_log
from tests.parts.azurite import Azurite
from tests.parts.seaweedfs import SeaweedFs
from tests.stress import swarm

NAMES = ["other", "sales.orders", "sales.lines", "sales.eu.orders", "a b.ü=%.x"]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def statuses(report: Any) -> dict[str | None, str]:
    return {item.table: item.status for item in report.tables}


def fill(lake: deltasql.Lake) -> None:
    for number, name in enumerate(NAMES):
        table = lake.create_table(name, rows().schema)
        table.append(rows(number))
        table.append(rows(100 + number))
    lake.mirror.run(once=True)


def must_be_recovered(lake: deltasql.Lake) -> None:
    assert sorted(table.name for table in lake.tables()) == sorted(NAMES)
    for number, name in enumerate(NAMES):
        table = lake.table(name)
        assert ids(table) == [number, 100 + number]
        assert [entry.version for entry in table.history()] == [2, 1, 0]
        assert table.append(rows(7)) == 3, "the fence is there: recovery commits nothing"
    assert lake.mirror.validate().ok


@pytest.fixture(params=["local", "s3", "azure"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """A location on each kind of object store, and its options."""
    if request.param == "local":
        return (tmp_path / "la ke").as_uri(), {}
    if request.param == "s3":
        seaweedfs: SeaweedFs = request.getfixturevalue("seaweedfs")
        return seaweedfs.location(f"recovered/{uuid.uuid4()}"), seaweedfs.options()
    azurite: Azurite = request.getfixturevalue("azurite")
    return azurite.location(f"recovered/{uuid.uuid4()}"), azurite.options()


def test_every_table_comes_back(place: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    location, options = place
    with deltasql.connect(
        f"sqlite:///{tmp_path / 'lost.db'}", location=location, settings=options
    ) as lost:
        fill(lost)
    seen: list[tuple[int, int]] = []
    with deltasql.connect(
        f"sqlite:///{tmp_path / 'new.db'}", location=location, settings=options
    ) as lake:
        planned = lake.recover(location, dry_run=True)
        assert statuses(planned) == dict.fromkeys(NAMES, "found")
        assert lake.tables() == []
        report = lake.recover(
            location, parallelism=3, progress=lambda done, total, _: seen.append((done, total))
        )
        assert report.ok
        assert statuses(report) == dict.fromkeys(NAMES, "adopted")
        assert seen == [(done, len(NAMES)) for done in range(1, len(NAMES) + 1)]
        again = lake.recover()
        assert again.ok
        assert statuses(again) == dict.fromkeys(NAMES, "present")
        must_be_recovered(lake)


def test_on_every_database_in_parallel(
    store_url: str, tmp_path: Path, open_lake: Callable[..., Any]
) -> None:
    with deltasql.connect(
        f"sqlite:///{tmp_path / 'lost.db'}", location=(tmp_path / "lake").as_uri()
    ) as lost:
        fill(lost)
    lake = open_lake(store_url)
    assert lake.recover(parallelism=8).ok
    must_be_recovered(lake)


class TestWhatCanNotBeTaken:
    """Each has a line of its own, and stops nothing else."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        write_deltalake(tmp_path / "lake" / "good", rows(1))
        return tmp_path / "lake"

    @pytest.fixture
    def recovered(self, root: Path, lake: Any) -> Iterator[Callable[[], dict[str, Any]]]:
        def recover() -> dict[str, Any]:
            report = lake.recover(str(root))
            found = {Path(item.location).name: item for item in report.tables}
            assert found.pop("good").status == "adopted"
            assert ids(lake.table("good")) == [1]
            assert all(item.problem for item in report.failed)
            assert report.ok == (not report.failed)
            return found

        return recover

    def test_broken_and_empty_logs(self, root: Path, recovered: Any) -> None:
        write_log(root / "torn", [PROTOCOL, METADATA, '{"add": {"path"'])
        write_log(root / "gap", [add("a")], first=5)
        (root / "empty" / "_delta_log").mkdir(parents=True)
        unknown = {"protocol": {"minReaderVersion": 9, "minWriterVersion": 2}}
        write_log(root / "future", [unknown, METADATA])
        found = recovered()
        assert {name: item.status for name, item in found.items()} == dict.fromkeys(
            ["torn", "gap", "empty", "future"], "failed"
        )
        assert "00000000000000000000.json" in found["torn"].problem
        assert "00000000000000000004.json is missing" in found["gap"].problem
        assert "empty or absent" in found["empty"].problem
        assert found["gap"].remedy

    def test_names_that_no_table_may_have(self, root: Path, recovered: Any) -> None:
        write_deltalake(root / " blank", rows(2))
        assert recovered()["%20blank"].problem.startswith("' blank' is not a table's name")

    def test_names_that_collide(self, root: Path, recovered: Any, lake: Any) -> None:
        write_deltalake(root / "x" / "y", rows(2))
        write_deltalake(root / "x.y", rows(3))
        found = recovered()
        assert "x/y is also named x.y" in found["x.y"].problem
        assert "x.y is also named x.y" in found["y"].problem
        lake.adopt(str(root / "x" / "y"), name="x.y")
        again = lake.recover(str(root))
        assert [item.problem for item in again.failed] == ["there is already a table x.y"]

    def test_names_that_are_taken(
        self, root: Path, recovered: Any, lake: Any, tmp_path: Path
    ) -> None:
        lake.create_table("mine", rows().schema, location=str(tmp_path / "elsewhere"))
        write_deltalake(root / "mine", rows(2))
        assert "there is already a table mine" in recovered()["mine"].problem

    def test_inside_another_table(self, root: Path, recovered: Any, lake: Any) -> None:
        write_deltalake(root / "good" / "inner", rows(2))
        write_deltalake(root / "good" / "p=1" / "unseen", rows(2))
        assert list(found := recovered()) == ["inner"]
        assert found["inner"].problem == "it is inside the folder of good"
        assert [table.name for table in lake.tables()] == ["good"]

    def test_inside_what_is_no_table(self, root: Path, recovered: Any, lake: Any) -> None:
        (root / "_delta_log").mkdir()
        (root / "_delta_log" / "junk").write_text("{}")
        write_deltalake(root / "region=eu" / "t", rows(2))
        assert recovered()["t"].table == "region=eu.t"
        assert ids(lake.table("region=eu.t")) == [2]

    def test_folders_that_can_not_be_searched(
        self, root: Path, recovered: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from deltasql.objectstore.local import LocalStore

        (root / "closed").mkdir()
        listed = LocalStore.folders

        def folders(store: LocalStore, prefix: str = "") -> list[str]:
            # As root, which tests may run as, no folder is closed.
            if prefix == "closed":
                raise deltasql.StoreError("can't list 'closed'", cause="Permission denied")
            return listed(store, prefix)

        monkeypatch.setattr(LocalStore, "folders", folders)
        assert recovered()["closed"].problem == "can't list 'closed': Permission denied"


def test_nothing_there_is_an_error(lake: Any, tmp_path: Path) -> None:
    (tmp_path / "lake" / "folder").mkdir(parents=True)
    with pytest.raises(deltasql.TableNotFoundError, match="no Delta table below"):
        lake.recover()
    with pytest.raises(deltasql.TableNotFoundError):
        lake.recover(str(tmp_path / "absent"))


def test_names_count_from_the_lake(lake: Any, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "lake" / "sales" / "orders", rows(1))
    write_deltalake(tmp_path / "elsewhere" / "old" / "orders", rows(2))
    assert statuses(lake.recover(str(tmp_path / "lake" / "sales"))) == {"sales.orders": "adopted"}
    one = lake.recover(str(tmp_path / "elsewhere" / "old" / "orders"), fence=False)
    assert statuses(one) == {"orders": "adopted"}
    assert DeltaTable(tmp_path / "elsewhere" / "old" / "orders").version() == 0, "no fence"
    whole = lake.recover(str(tmp_path / "elsewhere"))
    assert statuses(whole) == {"orders": "present"}


def test_it_stops_when_the_database_is_gone(
    lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write_log(tmp_path / "lake" / f"t{number}", [PROTOCOL, METADATA])

    def gone(*_: Any, **__: Any) -> Any:
        raise deltasql.DatabaseError("the server is gone")

    for name in ("stage_table", "clock_ms"):
        monkeypatch.setattr(lake.store, name, gone, raising=False)
    with pytest.raises(deltasql.DatabaseError, match="the server is gone"):
        lake.recover()


def test_interrupted_between_versions(lake: Any, tmp_path: Path) -> None:
    """What another table was doing ends at its next version, and goes on with the next run."""
    write_log(tmp_path / "lake" / "small", [PROTOCOL, METADATA])
    big = write_log(tmp_path / "lake" / "big", [PROTOCOL, METADATA])
    write_log(big, *[[add(f"f{number}")] for number in range(1, 200)], first=1)
    interrupted = threading.Event()

    def interrupt(*_: Any) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.recover(validate=False, progress=interrupt)
    assert interrupted.is_set()
    assert lake.recover(validate=False).ok
    assert len(lake.tables()) == 2
    assert lake.table("big").snapshot(199).files().num_rows == 199


@pytest.mark.parametrize("step", [5, 40, 90])
def test_killed_and_run_again(step: int, tmp_path: Path, sqlite_url: str, open_lake: Any) -> None:
    root = tmp_path / "lake"
    for number in range(4):
        write_log(root / f"t{number}", [PROTOCOL, METADATA, add("a")], [add("b")], [add("c")])
    open_lake().close()
    child = swarm.start(recover_and_die, sqlite_url, root.as_uri(), step)
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    lake = open_lake()
    with lake.store.locked([]) as log:
        log.execute("UPDATE dl_mirror_leases SET expires_at = '2001-01-01 00:00:00.000'")
    assert lake.recover(validate=False).ok
    for number in range(4):
        table = lake.table(f"t{number}")
        assert {item.path for item in table.snapshot(2).adds()} == {"a", "b", "c"}
        assert [entry.operation for entry in table.history()].count("ADOPT") == 1
        fence = json.loads(commit_file(root / f"t{number}", 3).read_text().splitlines()[0])
        assert fence["commitInfo"]["operation"] == "ADOPT"
        assert not commit_file(root / f"t{number}", 4).exists()
    assert lake.store.staged_tables() == []


def test_a_bucket_with_other_things(sqlite_url: str, seaweedfs: SeaweedFs, tmp_path: Path) -> None:
    """Folders of plain files, and a table at the very root of the location."""
    location = seaweedfs.location(f"mixed/{uuid.uuid4()}")
    bucket = open_store(location, seaweedfs.options())
    write_deltalake(tmp_path / "t", rows(1, 2))
    for path in (tmp_path / "t").rglob("*.*"):
        if path.is_file():
            key = path.relative_to(tmp_path / "t").as_posix()
            bucket.put(f"deep/er/t/{key}", path.read_bytes())
    bucket.put("plain/part-0.parquet", b"1")
    with deltasql.connect(sqlite_url, settings=seaweedfs.options()) as lake:
        assert statuses(lake.recover(location)) == {"deep.er.t": "adopted"}
        assert ids(lake.table("deep.er.t")) == [1, 2]
        with pytest.raises(deltasql.TableNotFoundError):
            lake.recover(f"{location}/plain")


def test_folders_whose_names_are_no_text(tmp_path: Path) -> None:
    root = tmp_path / "mixed"
    write_deltalake(root / "fine", rows(1))
    for bad in (b"bad\xff", b"deep\xfe/inner"):
        shutil.copytree(root / "fine", Path(os.fsdecode(os.fsencode(root) + b"/" + bad)))
    with deltasql.connect(f"sqlite:///{tmp_path / 'names.db'}") as lake:
        for dry_run in (True, False):
            report = lake.recover(str(root), dry_run=dry_run)
            assert [item.location.rpartition("/mixed/")[2] for item in report.failed] == [
                "bad%FF",
                "deep%FE/inner",
            ]
            assert all("not UTF-8" in item.problem for item in report.failed)
        assert ids(lake.table("fine")) == [1]


# --- a place that is far too high ---------------------------------------------------------


@pytest.fixture
def never_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes of the test: nothing outside of its folder is touched."""

    def search(objects: Any) -> Any:
        raise AssertionError(f"{objects.location} is searched")

    monkeypatch.setattr(recovering, "find_tables", search)


def test_what_is_too_broad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "me"
    monkeypatch.setenv("HOME", str(home))
    for place in ("/", "file:///", "/x/../"):
        assert "root" in (breadth_of(place) or ""), place
    for place in (home, home.parent, tmp_path):
        assert "home folder" in (breadth_of(str(place)) or "")
    for place in ("/top", "/top/folder", str(home / "lake"), "s3://b", "s3://b/x"):
        assert breadth_of(place) is None, place


@pytest.mark.usefixtures("never_searched")
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_place_far_too_high_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_url: str, dry_run: bool
) -> None:
    home = tmp_path / "home" / "me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    with deltasql.connect(sqlite_url, location=str(home)) as lake:
        # The lake's own location may be one, but is not searched unless that is said either.
        for place in (None, ".", str(home), home.parent, "..", "/"):
            with pytest.raises(deltasql.ValidationError, match="is not searched") as caught:
                lake.recover(place, dry_run=dry_run)
            assert "anywhere=True" in caught.value.remedy
        with pytest.raises(AssertionError, match="is searched"):
            lake.recover(home, dry_run=dry_run, anywhere=True)


def test_more_tables_than_the_limit_are_left_alone(lake: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for number in range(4):
        write_log(elsewhere / f"t{number}", [PROTOCOL, METADATA])
    with pytest.raises(deltasql.ValidationError, match="there are at least 4 tables") as caught:
        lake.recover(str(elsewhere), limit=3)
    assert "limit=4" in caught.value.remedy
    assert lake.tables() == []
    assert not commit_file(elsewhere / "t0", 1).exists()
    assert len(lake.recover(str(elsewhere), dry_run=True, limit=3).tables) == 4
    assert lake.recover(str(elsewhere), validate=False, limit=4).ok
    # Those of the lake don't count.
    write_log(elsewhere / "t4", [PROTOCOL, METADATA])
    assert len(lake.recover(str(elsewhere), validate=False, limit=1).adopted) == 1
