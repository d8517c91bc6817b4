"""The object stores of a lake: opened once, replaced and wrapped."""

from deltasql.testing.faulty_store import FaultyStore
from tests.lake.conftest import ORDERS


def test_a_store_is_opened_once(lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lake.objects("a") is lake.objects(str(tmp_path / "a"))
    assert lake.objects("a") is not lake.objects("b")


def test_a_store_of_ones_own_is_used(lake, tmp_path, rows, ids):
    location = (tmp_path / "own").as_uri()
    watched = FaultyStore(lake.objects(location), lambda _: None)
    lake.objects.use(location, watched)
    lake.create_table("t", ORDERS, location=location).append(rows(1))
    assert ids(lake.table("t")) == [1]
    assert any(call.path.startswith("_delta_log/") for call in watched.calls), "the mirror's, too"
    assert any(call.path.endswith(".parquet") for call in watched.calls)


def test_open_and_later_stores_are_wrapped(lake, rows):
    before = lake.create_table("before", ORDERS)
    made = []

    def watch(store):
        made.append(FaultyStore(store, lambda _: None))
        return made[-1]

    lake.objects.wrap(watch)
    table = lake.create_table("t", ORDERS)
    table.append(rows(1))
    before.append(rows(1))
    for each in (before, table):
        assert each.objects in made
        assert each.objects.calls
