"""Overwriting by a condition: rows outside of it stay, whatever is known of the files."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pytest

import deltasql
from deltasql.lake import writing
from deltasql.spec import deletion_vectors

PAIRS = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
FEED = {"delta.enableChangeDataFeed": "true"}


def pairs(*rows):
    return pa.Table.from_pylist(
        [dict(zip(["id", "a", "b"], row, strict=True)) for row in rows], PAIRS
    )


def everything(table):
    return sorted(map(repr, table.scan().to_arrow().to_pylist()))


@pytest.mark.parametrize("by", [[], ["a", "b"]], ids=str)
def test_comparing_two_columns_replaces_only_rows_that_match(lake, ids, by):
    for number, where in enumerate(("a = b", "NOT a <> b", "a <=> b")):
        table = lake.create_table(f"pairs{number}", PAIRS, partition_by=by)
        table.append(pairs((1, 1, 1), (11, 1, 6), (2, 1, 2)))
        table.append(pairs((12, 1, 7), (3, 2, 1)))
        table.overwrite(pairs((7, 9, 9)), where=where)
        assert ids(table) == [2, 3, 7, 11, 12], where


@pytest.mark.parametrize("by", [[], ["a"]], ids=str)
@pytest.mark.parametrize("where", ["abs(a - b) > 2", "a % 2 = 1 AND b > 1", "coalesce(b, a) = 1"])
def test_any_condition_replaces_only_rows_that_match(lake, where, by):
    """By the engine that evaluates it for a delete, in a transaction, too."""
    rows = [(1, 1, 1), (2, 1, 6), (3, 2, None), (4, None, 1), (5, 3, 9), (6, 1, None)]
    name = f"any{len(lake.tables())}"
    table = lake.create_table(name, PAIRS, partition_by=by, properties=FEED)
    for start in (0, 3):
        table.append(pairs(*rows[start : start + 3]))
    gone = set(table.scan(where=where).to_arrow().column("id").to_pylist())
    assert 0 < len(gone) < len(rows)
    new = table.scan(where=where).to_arrow()
    with pytest.raises(deltasql.errors.SchemaMismatchError, match="own condition"):
        table.overwrite(pairs((8, 0, 0)), where=where)
    before = table.version
    done = table.overwrite(new, where=where)
    assert done.metrics["numDeletedRows"] == len(gone)
    assert everything(table) == sorted(map(repr, pairs(*rows).to_pylist()))
    with lake.transaction() as tx:
        tx.table(name).overwrite(new.slice(0, 1), where=where)
    stay = [row for row in rows if row[0] not in gone] + [tuple(new.to_pylist()[0].values())]
    assert everything(table) == sorted(map(repr, pairs(*stay).to_pylist()))
    told = table.change_rows(before + 1, before + 1).read_all().to_pylist()
    assert {row["id"] for row in told} == gone
    assert lake.check(name).tables[name].ok


def test_a_partition_value_that_cannot_be_read_is_not_lost(lake, tmp_path):
    folder = tmp_path / "foreign"
    deltalake.write_deltalake(str(folder), pairs((1, 1, 1), (2, 2, 2)), partition_by=["a"])
    log = folder / "_delta_log" / "00000000000000000000.json"
    odd = log.read_text().replace('"partitionValues":{"a":"2"}', '"partitionValues":{"a":"two"}')
    assert odd != log.read_text()
    log.write_text(odd)
    table = lake.adopt(str(folder), "foreign")
    live = {add.path for add in table.snapshot().adds()}
    with pytest.raises(deltasql.LogFormatError, match="'two' is not a long"):
        table.overwrite(pairs((9, 1, 1)), where="a = 1")
    assert {add.path for add in table.snapshot().adds()} == live
    assert len(list(folder.rglob("*.parquet"))) == 2, "what was written is gone again"


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_a_partition_that_python_cannot_hold_stays(lake, inside):
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    table = lake.create_table("far", schema, partition_by=["day"])

    def rows(day, *numbers):
        return pa.table({"id": list(numbers), "day": [day] * len(numbers)}).cast(schema)

    table.append(rows(date(2026, 1, 1), 1))
    (add,) = table.snapshot().adds()
    far = replace(add, partition_values={"day": "12026-01-01"})
    table.commit([deltasql.RemoveFile.of(add, deletion_timestamp=1)], read_version=1)
    table.commit([far])
    new = rows(date(2026, 1, 1), 2)
    if inside:
        with lake.transaction() as tx:
            tx.table("far").overwrite(new, where="day = '2026-01-01'")
    else:
        table.overwrite(new, where="day = '2026-01-01'")
    live = {item.partition_values["day"] for item in table.snapshot().adds()}
    assert live == {"2026-01-01", "12026-01-01"}
    # Nor does it stand in the way of reading the others; and it goes when it surely should.
    assert table.scan(where="day < '2027-01-01'").to_arrow().num_rows == 1
    table.overwrite(rows(date(2027, 1, 1)), where="day >= '2027-01-01'")
    assert {item.partition_values["day"] for item in table.snapshot().adds()} == {"2026-01-01"}


def test_a_transaction_that_overwrites_one_partition_keeps_what_it_appended_to_another(
    lake, orders, rows, ids
):
    orders.append(rows(1, 2, day="d1"))
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(rows(3, 4, day="d2"))
        inside.overwrite(rows(5, day="d1"), where="day = 'd1'")
        assert ids(inside) == [3, 4, 5]
        # By rows, too: its own file is read and written anew.
        inside.overwrite(rows(6, day="d2"), where="id IN (4, 6)")
        assert ids(inside) == [3, 5, 6]
    assert ids(orders) == [3, 5, 6]


def test_a_condition_that_is_null_for_a_row_leaves_it(lake, ids):
    table = lake.create_table("nulls", PAIRS, partition_by=["a"])
    table.append(pairs((1, None, 1), (2, 1, None), (3, 1, 1), (4, None, None)))
    table.overwrite(pairs(), where="a = b")
    assert ids(table) == [1, 2, 4]
    table.overwrite(pairs(), where="NOT a = 2")
    assert ids(table) == [1, 4]
    table.overwrite(pairs(), where="a IS NULL AND NOT b = 2")
    assert ids(table) == [4]
    table.overwrite(pairs(), where="NULL")
    table.overwrite(pairs(), where="b <=> NULL")
    assert ids(table) == []


# --- the change feed ------------------------------------------------------------------


def feed(table, version):
    """What delta-rs finds in the feed of one version."""
    found = deltalake.DeltaTable(table.location).load_cdf(version, version)
    rows = pa.table(found.read_all()).to_pylist()
    return sorted((row["_change_type"], row["id"]) for row in rows)


def changes_in(table, version):
    (change,) = table.changes(version, version)
    return [action for action in change.actions if isinstance(action, deltasql.CdcFile)]


@pytest.fixture(params=[[], ["day"]], ids=["plain", "partitioned"])
def fed(lake, rows, request):
    table = lake.create_table("fed", rows(1).schema, partition_by=request.param, properties=FEED)
    table.append(rows(1, 2, 3, 4, day="d1"))
    table.append(rows(5, day="d2"))
    return table


def test_an_overwrite_writes_down_what_changed(fed, rows, ids):
    version = fed.overwrite(rows(2, 20, day="d1"), where="id IN (2, 20)")
    assert ids(fed) == [1, 2, 3, 4, 5, 20]
    assert feed(fed, version) == [("delete", 2), ("insert", 2), ("insert", 20)]
    files = changes_in(fed, version)
    assert files
    assert all(item.path.startswith("_change_data/") for item in files)
    # Some files go whole, others in part: all of it is in the feed.
    version = fed.overwrite(rows(7, day="d2"), where="day = 'd2' OR id = 1")
    assert feed(fed, version) == [("delete", 1), ("delete", 5), ("insert", 7)]
    # Where no row had to be written anew, files say it all.
    version = fed.overwrite(rows(8, day="d2"), where="day = 'd2'")
    assert feed(fed, version) == [("delete", 7), ("insert", 8)]
    assert changes_in(fed, version) == []
    version = fed.overwrite(rows(9))
    assert changes_in(fed, version) == []
    assert fed.mirror.validate().ok


def test_rows_that_a_vector_hides_are_not_in_the_feed(lake, rows):
    properties = FEED | {"delta.enableDeletionVectors": "true"}
    table = lake.create_table("hidden", rows(1).schema, properties=properties)
    table.append(rows(1, 2, 3, 4))
    (add,) = table.snapshot().adds()
    hidden = replace(add, deletion_vector=deletion_vectors.inline([0]))
    table.commit([deltasql.RemoveFile.of(add, deletion_timestamp=1), hidden], read_version=1)
    version = table.overwrite(rows(2), where="id <= 2")
    found = changes_in(table, version)
    assert feed(table, version) == [("delete", 2), ("insert", 2)]
    assert len(found) == 1


def test_the_feed_of_a_transaction_is_whole(lake, fed, rows, ids):
    with lake.transaction() as tx:
        inside = tx.table("fed")
        inside.append(rows(30, 31, day="d3"))
        inside.overwrite(rows(2, day="d1"), where="id = 2")
        inside.overwrite(rows(), where="id = 30")
        inside.overwrite(rows(), where="id = 5")
    assert ids(fed) == [1, 2, 3, 4, 31]
    assert feed(fed, tx.versions["fed"]) == [
        ("delete", 2), ("delete", 5), ("delete", 30), ("insert", 2), ("insert", 30), ("insert", 31),
    ]  # fmt: skip


def test_a_failed_overwrite_leaves_no_change_files(fed, rows):
    write = writing.overwrite(fed.objects, fed.snapshot(), rows(2), where="id = 2")
    assert any(isinstance(item, deltasql.CdcFile) for item in write.files)
    fed.overwrite(rows(2), where="id = 2")
    with pytest.raises(deltasql.CommitError):
        fed.commit_write(write)
    assert [item.path for item in write.files if fed.objects.head(unquote(item.path))] == []


@pytest.mark.parametrize("mode", ["name", "id"])
def test_changes_of_mapped_columns(lake, mode):
    schema = pa.schema([("id", pa.int64()), ("a b", pa.string()), ("p q", pa.string())])
    table = lake.create_table(
        "mapped",
        schema,
        partition_by=["p q"],
        properties=FEED | {"delta.columnMapping.mode": mode},
    )
    table.append(pa.table({"id": [1, 2], "a b": ["x", "y"], "p q": ["m", "m"]}))
    version = table.overwrite(pa.table({"id": [2], "a b": ["z"], "p q": ["n"]}), where="id = 2")
    assert everything(table) == [
        "{'id': 1, 'a b': 'x', 'p q': 'm'}", "{'id': 2, 'a b': 'z', 'p q': 'n'}"
    ]  # fmt: skip
    assert len(changes_in(table, version)) == 2, "one a partition"
