"""Creating, naming, listing and dropping tables."""

import pyarrow as pa
import pytest

import deltasql
from tests.lake.conftest import ORDERS


def test_a_new_table_is_at_version_0_and_fenced(orders):
    snapshot = orders.snapshot()
    assert snapshot.version == orders.version == 0
    assert snapshot.schema == ORDERS
    assert snapshot.protocol.min_reader_version == 1
    assert set(snapshot.protocol.writer_features) >= {"deltasql", "inCommitTimestamp"}
    assert snapshot.properties["delta.enableInCommitTimestamps"] == "true"


def test_the_fence_can_be_left_out(lake):
    table = lake.create_table("open", ORDERS, properties={"deltasql.fence": "false"})
    assert "deltasql" not in table.snapshot().protocol.writer_features


def test_a_name_is_taken_once(lake, orders):
    with pytest.raises(deltasql.TableExistsError, match=r"sales\.orders"):
        lake.create_table("sales.orders", ORDERS)
    again = lake.create_table("sales.orders", ORDERS, exists_ok=True)
    assert again.table_id == orders.table_id


@pytest.mark.parametrize(
    "name", ["", ".", "a..b", "a/b", "../x", "a\\b", "a\nb", "a\x00b", " a", "x" * 300]
)
def test_hostile_names_are_refused(lake, name):
    with pytest.raises(deltasql.ValidationError):
        lake.create_table(name, ORDERS)
    assert lake.tables() == []


@pytest.mark.parametrize(
    "name", ["a b", "naïve.täble", "x'; DROP TABLE dl_tables; --", "%2e%2e", "日本"]
)
def test_odd_names_work(lake, rows, ids, name):
    table = lake.create_table(name, ORDERS)
    table.append(rows(1))
    assert ids(lake.table(name)) == [1]


def test_tables_are_listed_by_name(lake):
    for name in ("b", "a", "c.d"):
        lake.create_table(name, ORDERS)
    assert [table.name for table in lake.tables()] == ["a", "b", "c.d"]


@pytest.mark.parametrize("meant", ["sales.ordres", "Sales.Orders", "orders", "sale.orders"])
def test_the_name_that_was_meant_is_suggested(lake, orders, meant):
    with pytest.raises(deltasql.TableNotFoundError) as failure:
        lake.table(meant)
    assert failure.value.remedy == "did you mean sales.orders? see lake.tables()"
    with pytest.raises(deltasql.TableNotFoundError) as failure:
        lake.drop_table("nothing.like.it")
    assert failure.value.remedy == "see lake.tables()"


def test_renaming_keeps_the_rows(lake, orders, rows, ids):
    orders.append(rows(1))
    lake.create_table("other", ORDERS)
    with pytest.raises(deltasql.TableExistsError):
        lake.rename_table("sales.orders", "other")
    renamed = lake.rename_table("sales.orders", "sales.sold")
    assert ids(renamed) == [1]
    with pytest.raises(deltasql.TableNotFoundError):
        lake.table("sales.orders")


def test_a_dropped_name_is_free_again(lake, orders, rows, ids, data_files):
    orders.append(rows(1))
    lake.drop_table("sales.orders")
    assert len(data_files()) == 1, "dropping keeps the files"
    with pytest.raises(deltasql.TableNotFoundError):
        lake.table("sales.orders")
    fresh = lake.create_table("sales.orders", ORDERS)
    assert fresh.location != orders.location
    assert ids(fresh) == []


def test_purging_deletes_log_and_files(lake, orders, rows, data_files):
    orders.append(rows(1))
    lake.drop_table("sales.orders", purge=True)
    assert data_files() == []
    with pytest.raises(deltasql.TableNotFoundError):
        orders.append(rows(2))
    with pytest.raises(deltasql.TableNotFoundError):
        orders.snapshot()


def test_bad_schemas_are_refused(lake):
    twice = pa.schema([("a", pa.int64()), ("A", pa.int64())])
    for schema, partition_by in [
        (twice, []),
        (ORDERS, ["nope"]),
        (ORDERS, ["day", "day"]),
        (ORDERS, ["id", "day", "amount"]),
        (pa.schema([("t", pa.time64("us"))]), []),
    ]:
        with pytest.raises(deltasql.DeltaSqlError):
            lake.create_table("bad", schema, partition_by=partition_by)
    assert lake.tables() == []


def test_unknown_settings_name_the_nearest(store_url):
    with pytest.raises(deltasql.ConfigError, match=r"sql\.pool_size"):
        deltasql.connect(store_url, settings={"sql.poolsize": 3})
    with pytest.raises(deltasql.ConfigError, match="positive integer"):
        deltasql.connect(store_url, settings={"sql.pool_size": "many"})


def test_the_environment_configures(empty_url, monkeypatch):
    monkeypatch.setenv("DELTASQL_URL", empty_url)
    monkeypatch.setenv("DELTASQL_SQL_SCHEMA", "error")
    with pytest.raises(deltasql.SchemaVersionError) as caught:
        deltasql.connect()
    assert caught.value.found == 0
    monkeypatch.setenv("DELTASQL_SQL_SCHEMA", "create")
    deltasql.connect().close()


@pytest.mark.parametrize("verb", ["rename_table", "undrop_table"])
def test_what_is_done_is_not_reported_as_failed(lake, orders, monkeypatch, verb):
    """The database goes away as soon as the table has its name."""
    if verb == "undrop_table":
        lake.drop_table("sales.orders")

    def gone(*_):
        raise deltasql.DatabaseError("the database went away just now")

    def then_gone(*arguments):
        found = done(*arguments)
        monkeypatch.setattr(lake.store, "table", gone)
        return found

    done = getattr(lake.store, verb)
    monkeypatch.setattr(lake.store, verb, then_gone)
    if verb == "rename_table":
        named = lake.rename_table("sales.orders", "sales.new")
    else:
        named = lake.undrop("sales.orders", new_name="sales.new")
    monkeypatch.undo()
    assert (named.name, named.version) == ("sales.new", 0)
    assert lake.table("sales.new").location == named.location == orders.location
