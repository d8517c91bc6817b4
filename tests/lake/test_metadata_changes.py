"""New metadata on tables that have rows: what is refused, and what it brings along."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltasql
from deltasql import AddFile
from deltasql.errors import ConcurrentAppendError, MetadataChangedError, ValidationError
from deltasql.spec.schema import Primitive, StructField, StructType
from tests.lake.conftest import ORDERS
from tests.lake.metadata import ON, ROW_IDS, SINCE, SINCE_TIME, changed, with_columns


def removes(table):
    return [
        deltasql.RemoveFile.of(add, deletion_timestamp=1) for add in table.snapshot().adds()
    ]  # fmt: skip


# --- properties -------------------------------------------------------------------------

BAD_PROPERTIES = {
    "delta.checkpointInterval": "ten",
    "delta.logRetentionDuration": "thirty days",
    "delta.deletedFileRetentionDuration": "1 month",
    "delta.setTransactionRetentionDuration": "",
    "delta.enableChangeDataFeed": "yes",
    "delta.dataSkippingNumIndexedCols": "many",
    "delta.checkpointIntreval": "5",
    "mirror.checkpoint_interval": "0",
}


def test_properties_are_checked_when_they_are_set(lake, orders):
    for key, value in BAD_PROPERTIES.items():
        with pytest.raises(ValidationError, match=key):
            lake.create_table("t", ORDERS, properties={key: value})
        wrong = changed(orders, **{key: value})
        with pytest.raises(ValidationError, match=key):
            orders.commit([wrong])
        with pytest.raises(ValidationError, match=key), lake.transaction() as tx:
            tx.table("sales.orders").commit([wrong])
    assert orders.version == 0
    assert [table.name for table in lake.tables()] == ["sales.orders"]


def test_keys_and_flags_are_taken_in_any_case(lake):
    given = {"DELTA.CheckpointInterval": "3", "delta.enablerowtracking": "TRUE"}
    properties = lake.create_table("t", ORDERS, properties=given).snapshot().properties
    assert properties["delta.checkpointInterval"] == "3"
    assert "delta.rowTracking.materializedRowIdColumnName" in properties
    with pytest.raises(ValidationError, match="strings to text"):
        lake.create_table("u", ORDERS, properties={"delta.checkpointInterval": 3})


# --- files that stay --------------------------------------------------------------------

LONG, TEXT = Primitive("long"), Primitive("string")
BREAKING = {
    "other partitions": lambda t: replace(t.snapshot().metadata, partition_columns=()),
    "more partitions": lambda t: replace(
        t.snapshot().metadata, partition_columns=("day", "id")
    ),
    "another type": lambda t: with_columns(t, StructField("id", TEXT)),
    "a narrower type": lambda t: with_columns(t, StructField("id", Primitive("integer"))),
    "a wider type, unannounced": lambda t: with_columns(
        t, StructField("id", Primitive("decimal(20,0)"))
    ),
    "one less": lambda t: with_columns(t, without=("amount",)),
    "new and NOT NULL": lambda t: with_columns(t, StructField("n", LONG, nullable=False)),
    "NOT NULL from now on": lambda t: with_columns(t, StructField("id", LONG, nullable=False)),
}  # fmt: skip


@pytest.mark.parametrize("change", BREAKING.values(), ids=BREAKING.keys())
def test_metadata_that_the_files_do_not_fit(orders, rows, ids, change):
    orders.append(rows(1, 2))
    with pytest.raises(ValidationError, match="does not fit the files"):
        orders.commit([change(orders)])
    with pytest.raises(ValidationError, match="does not fit the files"):
        orders.commit([change(orders)], read_version=1, reads="all")
    assert (orders.version, ids(orders)) == (1, [1, 2])
    # A file that is removed to come back is one that stays.
    (add,) = orders.snapshot().adds()
    (gone,) = removes(orders)
    wanted = change(orders)
    if wanted.partition_columns == ("day",):
        with pytest.raises(ValidationError):
            orders.commit([wanted, gone, replace(add, stats=None)])
    # Without the files it is as good as any other.
    assert orders.commit([wanted, gone]) == 2
    assert orders.snapshot().metadata == wanted
    assert ids(orders) == []


def test_metadata_that_the_files_do_not_fit_in_a_transaction(lake, orders, rows, ids):
    orders.append(rows(1))
    wanted = with_columns(orders, StructField("id", TEXT))
    with pytest.raises(ValidationError, match="does not fit"), lake.transaction() as tx:
        tx.table("sales.orders").commit([wanted])
    assert (orders.version, ids(orders)) == (1, [1])
    with lake.transaction() as tx:
        tx.table("sales.orders").commit([wanted, *removes(orders)])
    assert orders.version == 2


def test_an_empty_table_takes_any_metadata(orders):
    orders.commit([replace(orders.snapshot().metadata, partition_columns=("id",))])
    orders.commit([with_columns(orders, StructField("amount", TEXT, nullable=False))])
    assert orders.version == 2


def test_rows_that_come_meanwhile_are_not_overlooked(lake, orders, rows, ids, monkeypatch):
    """The table was empty when somebody looked, and is not when the commit is made."""
    wanted = replace(orders.snapshot().metadata, partition_columns=())
    store, late = lake.store, []
    look = store.files

    def files(*args, **more):
        found = look(*args, **more)
        if not late:
            late.append(orders.append(rows(1)))
        return found

    monkeypatch.setattr(store, "files", files)
    with pytest.raises((ConcurrentAppendError, ValidationError)):
        orders.commit([wanted])
    assert late == [1]
    assert (orders.version, ids(orders)) == (1, [1])
    with pytest.raises(ConcurrentAppendError):
        orders.commit([wanted], read_version=0)


def test_what_fits_is_taken(orders, rows, ids):
    orders.append(rows(1))
    orders.commit([with_columns(orders, StructField("note", TEXT))])
    orders.append(rows(2).append_column("note", [["x"]]))
    assert ids(orders) == [1, 2]


def test_wider_types_are_read_on(lake, ids):
    schema = pa.schema([("id", pa.int32())])
    table = lake.create_table("t", schema, properties={"delta.enableTypeWidening": "true"})
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    record = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    with pytest.raises(ValidationError, match=r"delta\.typeChanges"):
        table.commit([with_columns(table, StructField("id", LONG))])
    table.commit([with_columns(table, StructField("id", LONG, metadata=record))])
    table.append(pa.table({"id": [2**40]}))
    assert ids(table) == [1, 2**40]


# --- in-commit timestamps ---------------------------------------------------------------


@pytest.fixture
def untimed(lake, tmp_path):
    """A table of another writer, taken in as it was: without in-commit timestamps."""
    root = tmp_path / "stock"
    for number in range(2):
        write_deltalake(root, pa.table({"id": [number]}), mode="append")
    return lake.adopt(str(root), name="stock", fence=False)


def written(table, version):
    """The commit file's lines, from the mirror."""
    name = f"_delta_log/{version:020}.json"
    return [json.loads(line) for line in table.objects.read(name).splitlines()]


def test_the_commit_that_turns_timestamps_on_says_so(lake, untimed):
    assert not untimed.snapshot().state.in_commit_timestamps
    assert untimed.commit([changed(untimed, **{ON: "true"})]) == 2
    properties = untimed.snapshot().properties
    entry = lake.store.history(untimed.table_id, limit=1)[0]
    assert properties[SINCE] == "2"
    assert properties[SINCE_TIME] == str(entry.in_commit_timestamp)
    assert abs(entry.in_commit_timestamp - lake.store.clock_ms()) < 60_000
    lake.mirror.run(once=True)
    lines = written(untimed, 2)
    assert lines[0]["commitInfo"]["inCommitTimestamp"] == entry.in_commit_timestamp
    (metadata,) = [line["metaData"] for line in lines if "metaData" in line]
    assert metadata["configuration"] == dict(properties)
    assert untimed.append(pa.table({"id": [5]})) == 3
    assert lake.mirror.validate().ok

    # Metadata that replaces the old one whole leaves them as they are.
    plain = replace(changed(untimed), configuration={ON: "true", "mine": "1"})
    untimed.commit([plain])
    assert untimed.snapshot().properties == {**plain.configuration, **_since(properties)}
    with pytest.raises(ValidationError, match=SINCE):
        untimed.commit([changed(untimed, **{SINCE: "1"})])


def _since(properties):
    return {key: properties[key] for key in (SINCE, SINCE_TIME)}


def test_timestamps_are_turned_on_in_a_transaction_too(lake, orders, untimed, rows):
    with lake.transaction() as tx:
        tx.table("stock").commit(
            [changed(untimed, **{ON: "true"}), _protocol_with(untimed, "inCommitTimestamp")]
        )
        tx.table("sales.orders").append(rows(1))
    entry = lake.store.history(untimed.table_id, limit=1)[0]
    since = _since(untimed.snapshot().properties)
    assert since == {SINCE: "2", SINCE_TIME: str(entry.in_commit_timestamp)}
    assert orders.version == 1


def test_timestamps_are_not_turned_on_along_with_a_txn(untimed):
    with pytest.raises(ValidationError, match="app_id"):
        untimed.commit([changed(untimed, **{ON: "true"})], app_id="a", app_version=1)
    assert untimed.version == 1


def _protocol_with(table, *features):
    from deltasql.spec.protocol import upgraded

    return upgraded(table.snapshot().protocol, StructType(()), {}, also=features)


# --- row tracking -----------------------------------------------------------------------


def test_turning_row_tracking_on_numbers_the_rows_there_are(lake, orders, rows, ids):
    orders.append(rows(1, 2, 3))
    orders.append(rows(4, 5, day="2026-11-02"))
    assert orders.commit([changed(orders, **ROW_IDS)]) == 3
    files = list(orders.snapshot().adds())
    assert sorted((add.base_row_id, add.default_row_commit_version) for add in files) in (
        [(0, 3), (3, 3)],
        [(0, 3), (2, 3)],
    )
    assert ids(orders) == [1, 2, 3, 4, 5]
    (change,) = orders.changes(3, 3)
    restated = [action for action in change.actions if isinstance(action, AddFile)]
    assert [add.data_change for add in restated] == [False, False]
    assert orders.snapshot().domains["delta.rowTracking"] == '{"rowIdHighWaterMark":4}'
    orders.append(rows(6))
    newest = max(add.base_row_id for add in orders.snapshot().adds())
    assert newest == 5
    lake.mirror.run(once=True)
    assert lake.mirror.validate().ok


def test_rows_of_the_commit_that_turns_row_tracking_on_are_numbered(orders, rows):
    orders.append(rows(1))
    new = AddFile(
        path="new",
        size=1,
        modification_time=1,
        partition_values={"day": "d"},
        stats='{"numRecords":7}',
    )
    orders.commit([changed(orders, **ROW_IDS), *removes(orders), new])
    (add,) = orders.snapshot().adds()
    assert (add.path, add.base_row_id, add.default_row_commit_version) == ("new", 0, 2)


def test_row_tracking_is_not_turned_on_where_rows_were_not_counted(orders):
    orders.commit(
        [AddFile(path="a", size=1, modification_time=1, partition_values={"day": "d"})]
    )  # fmt: skip
    with pytest.raises(ValidationError, match="numRecords"):
        orders.commit([changed(orders, **ROW_IDS)])
    assert orders.version == 1


def test_an_append_meanwhile_gets_its_ids_or_stops_it(lake, orders, rows, monkeypatch):
    orders.append(rows(1))
    wanted, look, late = changed(orders, **ROW_IDS), lake.store.files, []

    def files(*args, **more):
        found = look(*args, **more)
        if not late:
            late.append(orders.append(rows(2)))
        return found

    monkeypatch.setattr(lake.store, "files", files)
    with pytest.raises((ConcurrentAppendError, MetadataChangedError)):
        orders.commit([wanted])
    monkeypatch.undo()
    assert orders.commit([wanted]) == 3
    assert all(add.base_row_id is not None for add in orders.snapshot().adds())


# --- paths ------------------------------------------------------------------------------


def test_no_file_has_a_path_that_can_be_read_in_two_ways(orders):
    for path in ("a\x01b", "a\nb", "a//b", "a%2F%2Fb", "s3://b//k", "a\0b", "a%00b"):
        file = AddFile(path=path, size=1, modification_time=1, partition_values={"day": "d"})
        with pytest.raises(ValidationError, match="path"):
            orders.commit([file])
    assert orders.version == 0
