"""Several tables at once: all or nothing, from one consistent cut."""

from dataclasses import replace

import pyarrow as pa
import pytest

import deltasql
from deltasql.spec.actions import CommitInfo, Txn
from tests.lake.conftest import ORDERS
from tests.lake.test_commits import add, paths, remove


@pytest.fixture
def lines(lake):
    return lake.create_table("sales.lines", pa.schema([("id", pa.int64())]))


def one(*ids):
    return pa.table({"id": list(ids)}, schema=pa.schema([("id", pa.int64())]))


def test_both_tables_or_none(lake, orders, lines, rows, ids, data_files):
    with lake.transaction() as tx:
        tx.table("sales.orders").append(rows(1))
        tx.table("sales.lines").append(one(1))
    assert tx.versions == {"sales.orders": 1, "sales.lines": 1}
    shared = {orders.history(1)[0].transaction_id, lines.history(1)[0].transaction_id}
    assert shared == {tx.id}
    with pytest.raises(RuntimeError), lake.transaction() as tx:  # noqa: PT012
        tx.table("sales.orders").append(rows(2))
        tx.table("sales.lines").append(one(2))
        raise RuntimeError
    assert (ids(orders), ids(lines)) == ([1], [1])
    assert len(data_files()) == 2, "an abandoned transaction leaves no files"


def test_it_reads_its_own_writes(lake, orders, lines, rows, ids):
    orders.append(rows(1, 2))
    with lake.transaction() as tx:
        table = tx.table("sales.orders")
        table.append(rows(3))
        assert ids(table) == [1, 2, 3]
        assert ids(orders) == [1, 2], "others don't"
        table.overwrite(rows(3, amount=7.0), where="id = 3")
        assert ids(table) == [1, 2, 3]
        assert ids(table, where="amount = 7") == [3]
        table.overwrite(rows(5))
        assert ids(tx.table("sales.orders")) == [5]
        assert ids(tx.table("sales.lines")) == []
    assert tx.versions == {"sales.orders": 2}
    assert ids(orders) == [5]
    assert orders.snapshot().files().num_rows == 1


def test_it_reads_one_consistent_cut(lake, orders, lines, rows, ids):
    orders.append(rows(1))
    with lake.transaction() as tx:
        assert ids(tx.table("sales.orders")) == [1]
        orders.append(rows(2))
        lines.append(one(2))
        assert ids(tx.table("sales.lines")) == []
        assert ids(tx.table("sales.orders")) == [1]


def test_a_name_stands_for_one_table(lake, orders, lines, rows, ids):
    with lake.transaction() as tx:
        assert ids(tx.table("sales.orders")) == []
        lake.rename_table("sales.orders", "sales.old")
        lake.rename_table("sales.lines", "sales.orders")
        tx.table("sales.orders").append(rows(1))
    assert ids(lake.table("sales.old")) == [1]
    assert ids(lake.table("sales.orders")) == []


def test_a_table_that_is_dropped_meanwhile_takes_no_rows(lake, orders, rows):
    schema = orders.snapshot().schema

    def write():
        with lake.transaction() as tx:
            tx.table("sales.orders").append(rows(1))
            lake.drop_table("sales.orders")
            lake.create_table("sales.orders", schema)
            tx.table("sales.orders").append(rows(2))

    with pytest.raises(deltasql.TableNotFoundError):
        write()
    assert lake.table("sales.orders").version == 0


def test_a_conflict_on_one_table_rolls_all_back(lake, orders, lines, rows, ids, data_files):
    orders.append(rows(1))
    with pytest.raises(deltasql.ConcurrentAppendError), lake.transaction() as tx:  # noqa: PT012
        tx.table("sales.lines").append(one(1))
        tx.table("sales.orders").overwrite(rows(2))
        orders.overwrite(rows(3))
    assert (ids(orders), ids(lines)) == ([3], [])
    assert len(data_files()) == 2


def test_what_was_read_is_part_of_the_check(lake, orders, lines, rows):
    orders.append(rows(1))
    with pytest.raises(deltasql.CommitError), lake.transaction() as tx:  # noqa: PT012
        total = tx.table("sales.orders").scan(where="day = '2026-11-01'").to_arrow().num_rows
        tx.table("sales.orders").append(rows(100 + total, day="2026-11-02"))
        orders.overwrite(rows(5))


@pytest.mark.parametrize("verb", ["delete", "update", "merge"])
def test_having_found_no_row_is_part_of_the_check(lake, orders, rows, ids, verb):
    """As when a row is deleted and then added, by two at once: it must not be there twice."""

    def replaced(table) -> None:
        if verb == "delete":
            table.delete("id = 7")
        elif verb == "update":
            table.update("id = 7", {"amount": "1"})
        else:
            table.merge(rows(7), "target.id = source.id").when_matched_delete().execute()
        table.append(rows(7))

    with pytest.raises(deltasql.ConcurrentAppendError), lake.transaction() as tx:  # noqa: PT012
        replaced(tx.table("sales.orders"))
        with lake.transaction() as other:
            replaced(other.table("sales.orders"))
    assert ids(orders) == [7]


def test_blind_appends_in_transactions_never_conflict(lake, orders, lines, rows, ids):
    with lake.transaction() as tx:
        tx.table("sales.orders").append(rows(1))
        tx.table("sales.lines").append(one(1))
        orders.append(rows(2))
        lines.append(one(2))
    assert (ids(orders), ids(lines)) == ([1, 2], [1, 2])


def test_low_level_commits_join(lake, orders, lines):
    orders.commit([add("a")])
    with lake.transaction() as tx:
        tx.table("sales.orders").commit([remove("a"), add("b")], operation="COMPACT")
        tx.table("sales.lines").append(one(1))
    assert paths(orders.snapshot()) == ["b"]
    assert orders.history(1)[0].operation == "COMPACT"


def test_an_empty_transaction_commits_nothing(lake, orders):
    with lake.transaction() as tx:
        tx.table("sales.orders").scan().to_arrow()
    assert orders.version == 0
    assert tx.versions == {}


def test_a_transaction_ends_with_its_block(lake, orders, rows, ids, data_files):
    with lake.transaction() as tx:
        handle = tx.table("sales.orders")
        handle.append(rows(1))
    late = [
        lambda: handle.append(rows(2)),
        lambda: handle.overwrite(rows(2)),
        lambda: handle.commit([add("a")]),
        handle.scan,
        lambda: tx.table("sales.orders"),
        lambda: tx.sql_execute("SELECT 1"),
    ]
    for use in late:
        with pytest.raises(deltasql.ValidationError, match="not open"):
            use()
    with pytest.raises(deltasql.ValidationError, match="used before"), tx:
        pass
    assert (ids(orders), orders.version, len(data_files())) == ([1], 1, 1)
    # One that raised is over, too.
    with pytest.raises(RuntimeError), lake.transaction() as failed:  # noqa: PT012
        failed.table("sales.orders").append(rows(3))
        raise RuntimeError
    with pytest.raises(deltasql.ValidationError, match="used before"), failed:
        pass
    assert ids(orders) == [1]


def test_misuse_is_told(lake, orders):
    tx = lake.transaction()
    with pytest.raises(deltasql.ValidationError, match="with"):
        tx.table("sales.orders")
    with pytest.raises(deltasql.TableNotFoundError), lake.transaction() as tx:
        tx.table("nope")
    late = pytest.raises(deltasql.TableNotFoundError, match="after the transaction")
    with late, lake.transaction() as tx:
        tx.table("sales.orders")
        lake.create_table("young", ORDERS)
        tx.table("young")


def test_many_tables(lake, rows, ids):
    tables = [lake.create_table(f"t{number}", ORDERS) for number in range(12)]
    with lake.transaction() as tx:
        for table in reversed(tables):
            tx.table(table.name).append(rows(1))
    assert all(ids(table) == [1] for table in tables)
    assert set(tx.versions.values()) == {1}


def test_the_applications_own_rows_join(lake, orders, rows, ids):
    with lake.transaction() as tx:
        tx.sql_execute("CREATE TABLE outbox (id bigint PRIMARY KEY, note varchar(9))")
    with lake.transaction() as tx:
        tx.table("sales.orders").append(rows(1))
        tx.sql_execute("INSERT INTO outbox VALUES (1, '100%')")
        found = tx.sql_execute("SELECT id, note FROM outbox")
        assert found.rows is None, "nothing runs before the commit"
    assert found.rows == [(1, "100%")]
    with pytest.raises(deltasql.DeltaSqlError), lake.transaction() as tx:  # noqa: PT012
        tx.table("sales.orders").append(rows(2))
        tx.sql_execute("INSERT INTO outbox VALUES (2, 'lost')")
        tx.sql_execute("INSERT INTO outbox VALUES (1, 'twice')")
    with pytest.raises(RuntimeError), lake.transaction() as tx:  # noqa: PT012
        tx.sql_execute("INSERT INTO outbox VALUES (3, 'lost')")
        raise RuntimeError
    with lake.transaction() as tx:
        found = tx.sql_execute("SELECT count(*) FROM outbox")
    assert found.rows == [(1,)]
    assert ids(orders) == [1]


@pytest.mark.parametrize("ending", ["COMMIT", "SELECT 1; commit", "/* */ ROLLBACK", "BEGIN"])
def test_a_statement_may_not_end_the_transaction(lake, orders, rows, ids, data_files, ending):
    """Committed by it, and followed by an error, the rows' files would have been deleted."""
    refused = pytest.raises(deltasql.ValidationError, match="inside a transaction")
    with refused, lake.transaction() as tx:
        tx.table("sales.orders").append(rows(1))
        tx.sql_execute(ending)
        tx.sql_execute("SELECT nonsense FROM nowhere")
    assert (orders.version, ids(orders), data_files()) == (0, [], [])


def test_a_transaction_of_an_application_happens_once(lake, orders, lines, rows, ids, data_files):
    with lake.transaction() as tx:
        tx.sql_execute("CREATE TABLE offsets (id bigint)")
    for _ in range(3):
        with lake.transaction(app_id="app", app_version=4) as tx:
            tx.table("sales.orders").append(rows(1))
            tx.table("sales.lines").append(one(1))
            tx.sql_execute("INSERT INTO offsets VALUES (4)")
        assert tx.versions == {"sales.orders": 1, "sales.lines": 1}
    with lake.transaction() as tx:
        found = tx.sql_execute("SELECT count(*) FROM offsets")
    assert found.rows == [(1,)]
    assert (ids(orders), ids(lines)) == ([1], [1])
    assert len(data_files()) == 2


def test_metadata_is_seen_inside(lake, orders, rows, ids):
    metadata = replace(orders.snapshot().metadata, description="new")
    with lake.transaction() as tx:
        table = tx.table("sales.orders")
        table.commit([metadata], operation="CHANGE")
        assert table.snapshot().metadata.description == "new"
        table.append(rows(1))
        assert ids(table) == [1]
        assert orders.snapshot().metadata.description is None
    assert orders.snapshot().metadata.description == "new"
    assert orders.version == 1


def test_a_scan_is_what_was_there_when_it_was_taken(lake):
    schema = pa.schema([("id", pa.int64())])
    lake.create_table("t", schema).append(pa.table({"id": [1]}, schema=schema))
    with lake.transaction() as tx:
        table = tx.table("t")
        before = table.scan()
        table.append(pa.table({"id": [2]}, schema=schema))
        between = table.scan()
        table.overwrite(pa.table({"id": [3]}, schema=schema))
        found = [scan.to_arrow().column("id").to_pylist() for scan in (before, between)]
        assert found == [[1], [1, 2]]
        assert table.scan().to_arrow().column("id").to_pylist() == [3]


def test_what_one_commit_says_once_is_the_last_of_it(lake, orders):
    """Two operations that each tell of themselves, and of how far an application got."""
    with lake.transaction() as tx:
        table = tx.table("sales.orders")
        for number in (1, 2):
            metrics = {"numFiles": str(number), "state": f"step {number}"}
            told = CommitInfo(engine_info="Engine/1", extra={"operationMetrics": metrics})
            txn = Txn(app_id="job", version=number)
            table.commit([told, txn, add(f"{number}.parquet")], operation=f"STEP {number}")
    assert orders.snapshot().txns == {"job": 2}
    actions = orders.changes(1)[0].actions
    (info,) = [item for item in actions if isinstance(item, CommitInfo)]
    assert info.operation == "TRANSACTION"
    assert info.extra["operationMetrics"] == {"numFiles": "3", "state": "step 2"}
    assert info.engine_info is not None
    assert info.engine_info.startswith("Engine/1 deltasql")


@pytest.mark.parametrize(
    "read",
    [
        lambda found: found.count("day = '2026-11-01'"),
        lambda found: found.min_max("id"),
        lambda found: found.head(1),
        lambda found: found.files("day = '2026-11-01'"),
        lambda found: found.partitions(),
        lambda found: found.scan(columns=["id"]).to_arrow(),
    ],
    ids=["count", "min_max", "head", "files", "partitions", "scan"],
)
def test_what_is_read_of_its_snapshot_is_part_of_the_check(lake, orders, rows, ids, read):
    """It is the table as the transaction reads it, just as `scan` of the transaction's table is."""
    orders.append(rows(1))
    with pytest.raises(deltasql.CommitError), lake.transaction() as tx:  # noqa: PT012
        table = tx.table("sales.orders")
        read(table.snapshot())
        table.append(rows(8))
        orders.overwrite(rows(2))
    assert ids(orders) == [2]


def test_a_schema_is_no_read(lake, orders, rows, ids):
    with lake.transaction() as tx:
        table = tx.table("sales.orders")
        assert table.snapshot().schema.names == orders.snapshot().schema.names
        assert table.snapshot().with_state(table.snapshot().state).version == 0
        table.append(rows(1))
        orders.overwrite(rows(2))
    assert ids(orders) == [1, 2]
