"""What a process remembers of a table may be old: it is asked for where it must be right."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import deltasql
from tests.lake.conftest import ORDERS
from tests.lake.test_commits import add, paths, remove


@pytest.fixture
def elsewhere(lake, store_url, tmp_path):
    """The same lake, as another process has it."""
    with deltasql.connect(store_url, location=(tmp_path / "lake").as_uri()) as other:
        yield other


def with_column(table, name):
    """The table's metadata with one column more."""
    metadata = table.snapshot().metadata
    schema = json.loads(metadata.schema_string)
    schema["fields"].append({"name": name, "type": "long", "nullable": True, "metadata": {}})
    return replace(metadata, schema_string=json.dumps(schema))


def test_row_tracking_turned_on_elsewhere_gives_ids(lake, elsewhere):
    table = lake.create_table("tracked", ORDERS, partition_by=["day"])
    lake.states.current(table.table_id)
    there = elsewhere.table("tracked")
    metadata = there.snapshot().metadata
    there.commit(
        [
            replace(
                metadata,
                configuration={
                    **metadata.configuration,
                    "delta.enableRowTracking": "true",
                    "delta.rowTracking.materializedRowIdColumnName": "_id",
                    "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
                },
            )
        ]
    )
    table.commit([add("a")])
    (file,) = table.snapshot().adds()
    assert (file.base_row_id, file.default_row_commit_version) == (0, 2)


def test_a_transaction_is_validated_as_the_table_is(lake, elsewhere, orders):
    lake.states.current(orders.table_id)
    there = elsewhere.table("sales.orders")
    metadata = there.snapshot().metadata
    there.commit(
        [replace(metadata, configuration={**metadata.configuration, "delta.appendOnly": "true"})]
    )
    with lake.transaction() as tx:
        tx.table("sales.orders").commit([add("a")])
    # What this process remembered would have let it through to the lock.
    there.commit(
        [replace(metadata, configuration={**metadata.configuration, "delta.appendOnly": "false"})]
    )
    with lake.transaction() as tx:
        tx.table("sales.orders").commit([remove("a")])
    assert paths(orders.snapshot()) == []


def test_reads_may_name_a_new_column(lake, elsewhere, orders):
    lake.states.current(orders.table_id)
    there = elsewhere.table("sales.orders")
    version = there.commit([with_column(there, "extra")])
    assert orders.commit([add("a")], read_version=version, reads="extra = 1") == version + 1
    with lake.transaction() as tx:
        tx.table("sales.orders").commit([add("b")], reads="extra = 1")
    assert paths(orders.snapshot()) == ["a", "b"]


@pytest.mark.parametrize("as_given", [pa.Table.to_reader, pa.Table.to_pylist, lambda rows: rows])
def test_an_append_is_refused_only_by_the_table_as_it_is(lake, elsewhere, as_given):
    table = lake.create_table("grown", "id BIGINT")
    table.append([{"id": 1}])
    there = elsewhere.table("grown")
    there.add_column("extra", "BIGINT")
    rows = pa.table({"id": [2], "extra": [3]})
    assert table.append(as_given(rows), max_commit_retries=0) == 3
    there.drop_column("extra", enable_column_mapping=True)
    version = there.version
    with pytest.raises(deltasql.SchemaMismatchError, match="no column extra"):
        table.append(as_given(rows))
    assert table.version == version
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]


def test_a_constraint_that_was_dropped_elsewhere_holds_up_no_append(lake, elsewhere):
    table = lake.create_table("bounded", "id BIGINT")
    table.add_constraint("small", "id < 9")
    table.append([{"id": 1}])
    elsewhere.table("bounded").drop_constraint("small")
    assert table.append([{"id": 10}]) == 4


def test_appends_that_rest_on_each_other_are_known_to_be_there(lake, elsewhere, orders):
    """The state is asked for once, and is still found out to be stale."""
    first = orders.commit([add("a")], read_version=orders.version)
    known = lake.states.current(orders.table_id)
    assert known.version == first
    second = orders.commit([add("b")], read_version=first)
    assert lake.states.current(orders.table_id).metadata_version == known.metadata_version
    there = elsewhere.table("sales.orders")
    changed = there.commit([with_column(there, "extra")], read_version=second)
    with pytest.raises(deltasql.MetadataChangedError):
        orders.commit([add("c")], read_version=second)
    with pytest.raises(deltasql.ValidationError, match="version 99 can't have been read"):
        orders.commit([add("d")], read_version=99)
    assert orders.commit([add("e")], read_version=changed) == changed + 1
    assert paths(orders.snapshot()) == ["a", "b", "e"]


class TestRerun:
    """A commit that is not blind, run again with the same application id and version."""

    def test_a_commit_is_skipped(self, orders):
        orders.commit([add("old")])
        sent = {"read_version": 1, "reads": "all", "app_id": "app", "app_version": 7}
        assert orders.commit([remove("old"), add("new")], **sent) == 2
        assert orders.commit([add("later")]) == 3
        assert orders.commit([remove("old"), add("new")], **sent) == 2
        assert orders.commit([remove("old"), add("new")], expected_version=2, **sent) == 2
        assert paths(orders.snapshot()) == ["later", "new"]

    def test_whatever_came_after_it(self, orders):
        sent = {"read_version": 0, "reads": "all", "app_id": "app", "app_version": 7}
        assert orders.commit([add("new")], **sent) == 1
        orders.commit([with_column(orders, "extra")])
        assert orders.commit([add("new")], **sent) == 1
        assert orders.version == 2

    def test_a_newer_one_still_conflicts(self, orders):
        sent = {"read_version": 0, "reads": "all", "app_id": "app"}
        assert orders.commit([add("new")], app_version=7, **sent) == 1
        with pytest.raises(deltasql.ConcurrentTransactionError):
            orders.commit([add("newer")], app_version=8, **sent)

    def test_a_transaction_is_skipped(self, lake, orders, rows, ids, data_files):
        lines = lake.create_table("sales.lines", pa.schema([("id", pa.int64())]))
        orders.append(rows(1))
        ran = []

        def run():
            with lake.transaction(app_id="app", app_version=1) as tx:
                table = tx.table("sales.orders")
                table.scan().to_arrow()
                table.append(rows(2))
                tx.table("sales.lines").append(pa.table({"id": [2]}))
                if not ran:
                    # The first of two that run at once is done before the second commits.
                    ran.append(None)
                    run()
            assert tx.versions == {"sales.orders": 2, "sales.lines": 1}

        run()
        assert (ids(orders), ids(lines)) == ([1, 2], [2])
        assert len(data_files()) == 3
