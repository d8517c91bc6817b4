"""Tables don't share places: the database refuses equal, enclosing and enclosed ones."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from deltasql.lake import locations
from deltasql.places import place_of
from tests.lake.conftest import ORDERS


def test_default_places_do_not_nest(lake, rows, ids):
    names = ["a", "a.b", "a.b.c", "x.y.z", "x.y", "x"]
    for number, name in enumerate(names):
        lake.create_table(name, ORDERS).append(rows(number))
    places = [f"{table.location}/" for table in lake.tables()]
    assert not [
        (one, other) for one in places for other in places if one != other and other.startswith(one)
    ]
    report = lake.drop_table("a", purge=True)
    assert (report.files, report.kept) == (1, ())
    assert {table.name: ids(table) for table in lake.tables()} == {
        name: [number] for number, name in enumerate(names) if name != "a"
    }


def test_a_late_mirror_does_not_hide_a_place(store_url, tmp_path, rows, ids):
    with deltasql.connect(
        store_url, location=str(tmp_path / "lake"), settings={"mirror.mode": "off"}
    ) as lake:
        first = lake.create_table("t", ORDERS)
        lake.rename_table("t", "old")
        second = lake.create_table("t", ORDERS)
        assert first.location != second.location
        lake.rename_table("t", "older")
        third = lake.create_table("t", ORDERS)
        assert third.location not in (first.location, second.location)
        third.append(rows(3))
        lake.drop_table("old", purge=True)
        assert ids(third) == [3]


@pytest.fixture
def linked(tmp_path):
    """`tmp_path` through a link."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path, target_is_directory=True)
    return link


SPELLINGS = {
    "as it is": lambda path, _: str(path),
    "slash": lambda path, _: f"{path}/",
    "uri": lambda path, _: path.as_uri(),
    "short uri": lambda path, _: f"file:{path}",
    "escaped": lambda path, _: f"file://{path}".replace("taken", "%74aken"),
    "dots": lambda path, _: f"{path}/x/..",
    "dots behind a link": lambda path, link: f"{path.parent}/{link.name}/../{path.name}",
    "dots behind a link, within": lambda path, link: f"{path.parent}/{link.name}/../taken/in",
    "link": lambda path, link: str(link / path.name),
    "within": lambda path, _: str(path / "deep" / "er"),
    "around": lambda path, _: str(path.parent),
    "linked within": lambda path, link: (link / path.name / "deep").as_uri(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_place_is_taken_under_any_spelling(lake, linked, tmp_path, spelling):
    taken = tmp_path / "out" / "taken"
    lake.create_table("first", ORDERS, location=str(taken))
    (tmp_path / "taken").symlink_to(taken)
    (taken.parent / linked.name).symlink_to(tmp_path / "deep" / "er")
    wanted = SPELLINGS[spelling](taken, linked)
    with pytest.raises(deltasql.LocationTakenError, match="first"):
        lake.create_table("second", ORDERS, location=wanted)
    assert [table.name for table in lake.tables()] == ["first"]
    lake.create_table("beside", ORDERS, location=f"{taken}2")


def test_tables_from_before_hold_their_places_too(lake, tmp_path):
    lake.create_table("first", ORDERS, location=str(tmp_path / "out"))
    with lake.store.locked([]) as log:
        log.execute("DELETE FROM dl_places")
    for place in ("out", "out/in", "."):
        with pytest.raises(deltasql.DeltaSqlError):
            lake.create_table("second", ORDERS, location=str(tmp_path / place))
    lake.create_table("second", ORDERS)
    with lake.store.locked([]) as log:
        ((count,),) = log.execute("SELECT count(*) FROM dl_places")
    assert count == 2


@pytest.mark.parametrize(
    ("location", "cause"),
    [
        ("", "working directory"),
        (" ", "working directory"),
        ("~", "a home folder"),
        ("{home}/..", "a home folder"),
        ("{root}", "the location of the lake itself"),
        ("file:{root}/", "the location of the lake itself"),
        ("{root}/..", "the location of the lake itself"),
    ],
)
def test_places_that_hold_more_than_a_table_are_refused(
    lake, tmp_path, monkeypatch, location, cause
):
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
    monkeypatch.chdir(tmp_path)
    wanted = location.format(root=tmp_path / "lake", home=tmp_path / "home" / "me")
    with pytest.raises(deltasql.ValidationError) as caught:
        lake.create_table("t", ORDERS, location=wanted)
    assert cause in caught.value.cause
    if location not in ("", " "):
        with pytest.raises(deltasql.ValidationError, match="can't be at"):
            lake.adopt(wanted, "t")
    assert lake.tables() == []
    assert not (tmp_path / "_delta_log").exists()


def test_no_table_lies_in_a_log(small, rows, ids):
    """The log of `s` would be at `s/_delta_log`, and so would the table `s._delta_log`."""
    inner = small.create_table("s._delta_log", ORDERS)
    outer = small.create_table("s", ORDERS)
    for number, table in enumerate((inner, outer)):
        assert "_delta_log" not in table.location.split("/")
        table.append(rows(number))
    assert (ids(inner), ids(outer)) == ([0], [1])
    with pytest.raises(deltasql.ValidationError, match="holds only logs"):
        small.create_table("x", ORDERS, location=f"{outer.location}-2/_delta_log/x")


def test_the_root_of_all_is_refused(lake):
    for root in ("/", "file:///", "file:/tmp/.."):
        with pytest.raises(deltasql.ValidationError, match="can't be at"):
            locations.check(lake, root)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_the_folder_of_the_database_is_refused(kind, tmp_path):
    folder = tmp_path / "db"
    folder.mkdir()
    url = f"{kind}:///{folder / 'log.db'}"
    with deltasql.connect(url, location=str(tmp_path / "lake")) as lake:
        for location in (folder, tmp_path):
            with pytest.raises(deltasql.ValidationError, match="can't be at"):
                lake.create_table("t", ORDERS, location=str(location))
        lake.create_table("t", ORDERS, location=str(folder / "t"))


def test_foreign_files_are_not_built_upon(lake, tmp_path):
    place = tmp_path / "out"
    (place / "photos").mkdir(parents=True)
    lake.create_table("empty", ORDERS, location=str(tmp_path / "empty"))
    (place / "photos" / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(deltasql.ValidationError, match="not empty"):
        lake.create_table("t", ORDERS, location=str(place))
    assert [path.name for path in place.rglob("*") if path.is_file()] == ["cat.jpg"]


def test_a_dropped_table_keeps_its_place_until_it_is_purged(lake, tmp_path):
    place = tmp_path / "out"
    lake.create_table("t", ORDERS, location=str(place))
    lake.drop_table("t")
    for location in (place, place / "in"):
        with pytest.raises(deltasql.LocationTakenError, match="t") as caught:
            lake.create_table("u", ORDERS, location=str(location))
        assert "lake.purge" in caught.value.remedy
    lake.purge("t")
    lake.create_table("u", ORDERS, location=str(place / "in"))


def test_of_creators_at_once_one_wins(lake, tmp_path):
    """Equal places, and one within another."""
    pairs = [("", ""), ("", "/in"), ("/in/deep", "")]
    for number, endings in enumerate(pairs * 3):
        start = Barrier(len(endings))
        wanted = [f"{tmp_path}/race{number}{ending}" for ending in endings]

        def create(place, name, start=start):
            start.wait()
            try:
                return lake.create_table(name, ORDERS, location=place)
            except deltasql.LocationTakenError:
                return None
            except deltasql.ValidationError:
                return None  # the winner's mirror was quicker than our look at the folder

        names = [f"t{number}.{letter}" for letter in "xy"]
        with ThreadPoolExecutor(len(endings)) as pool:
            made = list(pool.map(create, wanted, names))
        assert len([table for table in made if table is not None]) == 1


# --- adoption -------------------------------------------------------------------------


@pytest.fixture
def stock(tmp_path):
    def make(path, rows):
        write_deltalake(str(path), rows)
        return path

    return lambda path, rows: make(tmp_path / path, rows)


def test_adoption_takes_no_place_around_or_within(lake, stock, rows, tmp_path):
    lake.create_table("t", ORDERS, location=str(tmp_path / "out" / "t"))
    for place in ("out/t/in", "out"):
        found = stock(place, rows(1))
        before = sorted(found.rglob("*"))
        with pytest.raises(deltasql.LocationTakenError, match="t"):
            lake.adopt(str(found), "u")
        assert sorted(found.rglob("*")) == before, "no fence was put up"
    assert lake.store.staged_tables() == []


def test_an_adopted_table_keeps_others_out(lake, stock, rows, tmp_path):
    found = stock("out/t", rows(1))
    lake.adopt(str(found), "t")
    for place in (found / "in", found.parent):
        with pytest.raises(deltasql.LocationTakenError, match="t"):
            lake.create_table("u", ORDERS, location=str(place))
    with pytest.raises(deltasql.TableExistsError):
        lake.adopt(found.as_uri() + "/", "u")


def test_one_adoption_per_place(lake, stock, rows, linked):
    found = stock("out", rows(1))
    lake.adopt(str(found), "t")
    with pytest.raises(deltasql.TableExistsError):
        lake.adopt(str(linked / "out"), "u")
    assert [table.name for table in lake.tables()] == ["t"]


def test_a_dropped_table_can_be_adopted_again(lake, orders, rows, ids):
    orders.append(rows(1))
    lake.drop_table("sales.orders")
    again = lake.adopt(orders.location, "sales.orders")
    assert ids(again) == [1]
    (old,) = lake.dropped()
    report = lake.purge(old.table_id)
    assert "adopted again" in report.kept_because
    assert ids(again) == [1]
    assert again.mirror.validate().ok
    assert Path(again.location.removeprefix("file://")).exists()


# --- spellings that mislead -------------------------------------------------------------


@pytest.fixture
def small(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        yield lake


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/t/q#2",
        "s3://lake/t/q?2",
        "s3://lake:80/t",
        "s3://lake/y\\q",
        "s3://lake/t/q\t",
        "s3://lake/t/q ",
        "{root}/y\\q",
        "{root}/x\0y",
        "{root}/x\udcff",
    ],
)
def test_what_two_readers_may_take_for_two_places_is_refused(small, tmp_path, location):
    wanted = location.format(root=tmp_path)
    for attempt in (
        lambda: small.create_table("t", ORDERS, location=wanted),
        lambda: small.adopt(wanted, "t"),
        lambda: small.recover(wanted),
        lambda: deltasql.connect(small.url, location=wanted),
    ):
        with pytest.raises(deltasql.ValidationError, match="location"):
            attempt()
    assert small.tables() == []


def test_a_link_before_dots_does_not_hide_a_place(small, tmp_path, rows, ids):
    (tmp_path / "deep" / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "x")
    first = small.create_table("first", ORDERS, location=f"{tmp_path}/link/../p")
    first.append(rows(1))
    assert (tmp_path / "p" / "_delta_log").is_dir()
    assert first.location == f"{tmp_path}/p"
    with pytest.raises(deltasql.LocationTakenError, match="first"):
        small.create_table("second", ORDERS, location=f"{tmp_path}/p")
    with pytest.raises(deltasql.TableExistsError, match="already"):
        small.adopt(f"{tmp_path}/link/../p", "second")


@pytest.mark.parametrize("kind", ["path", "uri"])
@pytest.mark.parametrize("name", ["größe a", "50% #1?", "sales.a b"])
def test_names_that_a_uri_escapes(sqlite_url, tmp_path, rows, kind, name):
    root = tmp_path / "lake"
    with deltasql.connect(
        sqlite_url, location=str(root) if kind == "path" else root.as_uri()
    ) as lake:
        table = lake.create_table(name, ORDERS)
        table.append(rows(1))
        assert (root / name.replace(".", "/") / "_delta_log").is_dir()
        assert DeltaTable(table.location).to_pyarrow_table().column("id").to_pylist() == [1]
    with deltasql.connect(f"sqlite:///{tmp_path}/other.db", location=str(root)) as lake:
        assert [found.table for found in lake.recover().adopted] == [name]


def test_a_purge_meanwhile_lets_nobody_build_on_what_stayed(small, sqlite_url, tmp_path, rows):
    """A released table's files stay, also when its rows are gone."""
    table = small.create_table("old", ORDERS, location=str(tmp_path / "p"))
    table.append(rows(1))
    table.release()
    small.drop_table("old")
    ask = small.store.claims

    def purged_meanwhile(location):
        found = ask(location)
        with deltasql.connect(sqlite_url) as other:
            other.purge("old")
        return found

    small.store.claims = purged_meanwhile
    try:
        with pytest.raises(deltasql.LocationTakenError, match="old"):
            small.create_table("new", ORDERS, location=str(tmp_path / "p"))
    finally:
        del small.store.claims
    with pytest.raises(deltasql.ValidationError, match="not empty"):
        small.create_table("new", ORDERS, location=str(tmp_path / "p"))


def test_locations_may_be_paths(small, tmp_path, rows, ids, monkeypatch):
    created = small.create_table("created", ORDERS, location=tmp_path / "c")
    assert created.location == str(tmp_path / "c")
    for place in ("one", "two"):
        write_deltalake(str(tmp_path / place / "t"), rows(len(place)))
    monkeypatch.chdir(tmp_path)
    assert ids(small.adopt(Path("one/t"), "adopted")) == [3]
    assert [found.table for found in small.recover(Path("two")).adopted] == ["t"]


@pytest.mark.parametrize("location", [1, b"/a"])
def test_what_is_no_text_is_no_location(small, location):
    with pytest.raises(deltasql.ValidationError, match="location"):
        small.create_table("t", ORDERS, location=location)
    with pytest.raises(deltasql.ValidationError, match="location"):
        small.adopt(location, "t")


@pytest.mark.parametrize("name", [None, 1, "a\udcff", b"a"])
def test_what_is_no_text_is_no_name(small, name):
    with pytest.raises(deltasql.ValidationError, match="name must be text"):
        small.create_table(name, ORDERS)


def test_recovery_knows_a_table_behind_a_link(small, linked):
    small.create_table("sales.t", ORDERS)
    (found,) = small.recover(str(linked / "lake")).tables
    assert (found.table, found.status) == ("sales.t", "present")


def test_dots_behind_a_link_go_as_in_the_stores(tmp_path):
    (tmp_path / "deep" / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "x")
    assert place_of(f"{tmp_path}/link/../p") == place_of(f"{tmp_path}/p")
    assert place_of(f"{tmp_path}/link/p") == place_of(f"{tmp_path}/deep/x/p")
