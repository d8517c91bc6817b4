"""Reading as users of other libraries know it."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
from collections import Counter
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.errors import UnsupportedFeatureError, ValidationError, VersionNotFoundError

ROWS = pa.table({"id": [1, 2, 3, 4], "day": ["a", "a", "b", None], "n": [0.5, None, 2.0, 3.0]})


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("reading")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


@pytest.fixture(scope="module")
def table(lake):
    return lake.create_table("plain", data=ROWS, partition_by=["day"])


@pytest.fixture(scope="module")
def marked(lake):
    properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    table = lake.create_table("marked", data=ROWS, properties=properties)
    table.delete("id = 2")
    return table


def _ids(found) -> list[int]:
    return sorted(found["id"].to_list() if hasattr(found, "columns") else found)


def test_frames_of_every_library(table, marked):
    for found, ids in ((table.scan(where="id > 1"), [2, 3, 4]), (marked.scan(), [1, 3, 4])):
        assert _ids(found.to_polars()) == ids
        assert sorted(found.to_pandas()["id"]) == ids
        assert sorted(row[0] for row in found.to_duckdb().select("id").fetchall()) == ids
        with duckdb.connect() as own:
            assert found.to_duckdb(own).count("*").fetchall() == [(len(ids),)]
        assert sorted(found.to_reader().read_all().column("id").to_pylist()) == ids


@pytest.mark.parametrize("where", [None, "id >= 0", "id % 1 = 0"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_rows_come_in_the_order_of_the_files(lake, monkeypatch, where, vectors):
    # Every other file is one that is not read ahead.
    monkeypatch.setattr("deltasql.data.reading.reader._SMALL_FILE", 2_000)
    properties = {"delta.enableDeletionVectors": vectors}
    table = lake.create_table(f"o{vectors}{hash(where)}", ROWS.schema, properties=properties)
    with lake.transaction() as tx:
        for n in range(24):
            ids = pa.arange(n * 1000, n * 1000 + (999 if n % 2 else 9))
            tx.table(table.name).append(pa.table({"id": ids}))
    table.delete("id % 7 = 3")
    files = {
        add.path: pq.read_table(io.BytesIO(table.objects.read(add.path)))["id"].to_pylist()
        for add in table.snapshot().adds()
    }
    paths = table.snapshot().files().column("path").to_pylist()
    expected = [key for path in paths for key in files[path] if key % 7 != 3]
    assert table.scan(where).to_arrow()["id"].to_pylist() == expected
    assert [key for batch in table.scan(where).to_batches()
            for key in batch["id"].to_pylist()] == expected  # fmt: skip


def test_lazy_polars_reads_what_it_needs(marked):
    lazy = marked.scan().to_polars(lazy=True)
    assert isinstance(lazy, pl.LazyFrame)
    assert _ids(lazy.filter(pl.col("id") > 1).select("id").collect()) == [3, 4]
    assert lazy.head(1).collect().height == 1
    assert lazy.select(pl.len()).collect().item() == 3


def test_a_dataset_of_pyarrow(table, marked):
    dataset = table.scan(where="day = 'a'").to_pyarrow_dataset()
    assert len(list(dataset.get_fragments())) == 1
    whole = table.scan().to_pyarrow_dataset()
    assert sorted(whole.to_table(filter=ds.field("day") == "a")["id"].to_pylist()) == [1, 2]
    assert whole.to_table().sort_by("id") == table.scan().to_arrow().sort_by("id")
    with pytest.raises(UnsupportedFeatureError, match="maps its columns"):
        marked.scan().to_pyarrow_dataset()


def test_a_dataset_reads_the_times_of_spark(lake):
    """Spark writes 96 bits by default; as nanoseconds they would end in the year 2262."""
    times = pa.array([dt.datetime(9999, 12, 31), None], pa.timestamp("us", "UTC"))  # noqa: DTZ001
    table = lake.create_table("spark_times", pa.schema([("t", times.type)]))
    rows, folder = pa.table({"t": times}), table.location.removeprefix("file://")
    pq.write_table(rows, f"{folder}/a.parquet", use_deprecated_int96_timestamps=True)
    size = Path(f"{folder}/a.parquet").stat().st_size
    add = {"path": "a.parquet", "partitionValues": {}, "size": size, "modificationTime": 1,
           "dataChange": True}  # fmt: skip
    table.commit([{"add": add}])
    assert table.scan().to_arrow() == table.scan().to_pyarrow_dataset().to_table() == rows


def test_counts_come_from_the_log(table, marked, monkeypatch):
    assert marked.count("id > 1") == 2
    assert table.count("n IS NULL") == 1
    monkeypatch.setattr("deltasql.lake.scan.read_files", _no_reading)
    assert (table.count(), table.count("day = 'a'"), marked.count()) == (4, 2, 3)


def test_extremes_come_from_the_log(lake, table, marked, monkeypatch):
    kinds = lake.create_table("extremes", data=pa.table({
        "f": [1.0, float("nan"), None], "day": [dt.date(2024, 1, 2), dt.date(1969, 1, 1), None],
        "none": pa.array([None] * 3, pa.int64()), "s": ["long" * 20, "a", None],
    }))  # fmt: skip
    assert marked.min_max("id", "n IS NULL OR n > 0") == (1, 4)
    marked_at_an_end = lake.create_table(
        "ends", data=ROWS, properties={"delta.enableDeletionVectors": "true"}
    )
    marked_at_an_end.delete("id = 4")
    assert marked_at_an_end.min_max("id") == (1, 3)
    least, greatest = kinds.min_max("f")
    assert least == 1.0
    assert greatest != greatest
    assert kinds.min_max("s") == ("a", "long" * 20)
    assert table.min_max("n", "day = 'a'") == (0.5, 0.5)
    assert table.min_max("id", "id > 9") == (None, None)
    assert table.min_max("id", "id % 2 = 1") == (1, 3)
    with pytest.raises(ValidationError, match="limit"):
        table.scan(limit=1).min_max("id")
    monkeypatch.setattr("deltasql.lake.scan.read_files", _no_reading)
    assert (table.min_max("id"), table.min_max("ID", "day = 'a'")) == ((1, 4), (1, 2))
    assert table.min_max("day") == ("a", "b")
    assert kinds.min_max("day") == (dt.date(1969, 1, 1), dt.date(2024, 1, 2))
    assert kinds.min_max("none") == (None, None)


def _no_reading(objects, adds, **_):
    assert not list(adds)
    return iter(())


def test_partitions_vectors_and_detail(table, marked):
    assert marked.partitions() == []
    assert table.partitions() == [{"day": "a"}, {"day": "b"}, {"day": None}]
    vectors = marked.snapshot().deletion_vectors()
    assert vectors.column("deleted_rows").to_pylist() == [[1]]
    detail = table.detail()
    assert (detail["numFiles"], detail["partitionColumns"]) == (3, ["day"])
    assert detail["sizeInBytes"] > 0
    assert detail["lastModified"] == table.snapshot().timestamp


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("mode", ["none", "name"])
def test_changes_as_rows(lake, vectors, mode):
    table = lake.create_table(
        f"changed.{mode}.{vectors}",
        data=ROWS,
        partition_by=["day"],
        properties={"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": mode,
                    "delta.enableDeletionVectors": vectors},
    )  # fmt: skip
    table.update("id = 1", {"n": "9"})
    table.delete("day = 'a'")
    table.append(ROWS.slice(0, 1))
    found = table.change_rows(1).read_all().to_pylist()
    told = Counter((row["_commit_version"], row["_change_type"], row["id"]) for row in found)
    assert told == Counter(
        [(1, "update_preimage", 1), (1, "update_postimage", 1), (2, "delete", 1), (2, "delete", 2),
         (3, "insert", 1)]
    )  # fmt: skip
    assert table.change_rows().read_all().num_rows == 4 + 5
    since = table.snapshot(version=3).timestamp
    assert table.change_rows(from_timestamp=since).read_all().num_rows == 1
    assert table.change_rows(2, 2).read_all().num_rows == 2
    with pytest.raises(VersionNotFoundError, match="version 3 to 9"):
        table.change_rows(3, 9)


def test_vectors_of_versions_without_change_files(lake):
    """As other writers leave them: a file with another vector stands for the rows between."""
    table = lake.create_table("bare", data=ROWS, properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 2")
    table.set_properties({"delta.enableChangeDataFeed": "true"})
    from deltasql.lake.feed.rows import feed_rows

    rows = feed_rows(table.objects, table.snapshot().state, table.changes(1, 1), table="bare")
    assert [(row["id"], row["_change_type"]) for row in rows.read_all().to_pylist()] == [
        (2, "delete")
    ]


def test_removes_of_stock_delta_leave_out_partitions_of_null(lake):
    rows = pa.table({"id": [1], "day": pa.array([None], pa.string())})
    feed = {"delta.enableChangeDataFeed": "true"}
    table = lake.create_table("foreign", data=rows, partition_by=["day"], properties=feed)
    (add,) = table.snapshot().adds()
    remove = {"path": add.path, "dataChange": True, "deletionTimestamp": 1, "size": add.size,
              "extendedFileMetadata": True, "partitionValues": {}}  # fmt: skip
    table.commit([{"remove": remove}], operation="DELETE")
    (row,) = table.change_rows(1).read_all().to_pylist()
    assert (row["id"], row["day"], row["_change_type"]) == (1, None, "delete")


def test_a_table_without_a_feed_says_so(table):
    with pytest.raises(ValidationError, match="no change feed"):
        table.change_rows()


def test_numbers_beside_texts(lake):
    """As in Spark: the texts become numbers, and what is none fails."""
    rows = pa.table({"id": [1, 2, 3, 4], "s": ["1", " 2 ", "+3", None], "n": ["a", "1", "2", "3"]})
    table = lake.create_table("texts", data=rows)
    for where, ids in (("s = 2", [2]), ("s > 1", [2, 3]), ("s IN (1, 3)", [1, 3]),
                       ("s <> 1", [2, 3]), ("s < 2.5 AND id > 1", [2])):  # fmt: skip
        assert table.scan(where, columns=["id"]).to_arrow().column("id").to_pylist() == ids
        assert table.count(where) == len(ids)
    with pytest.raises(ValidationError, match="can't be evaluated"):
        table.scan("n = 1").to_arrow()
    assert table.scan("n = 1 AND id > 4").to_arrow().num_rows == 0
    with lake.transaction() as tx:
        assert tx.table("texts").scan("s = 2").to_arrow().num_rows == 1


def test_timestamps_beside_dates(lake):
    """As in Spark, and as delete has it: the date is its midnight in UTC."""
    days = [dt.date(1582, 10, 4), dt.date(1970, 1, 1), dt.date(1970, 1, 2), None]
    for kind, by in (("dates", []), ("dates_by", ["d"])):
        rows = pa.table({"id": [1, 2, 3, 4], "d": days})
        table = lake.create_table(kind, data=rows, partition_by=by)
        for where, ids in (
            ("d > TIMESTAMP '1970-01-01 00:00:01'", [3]),
            ("d >= TIMESTAMP '1970-01-01 00:00:00'", [2, 3]),
            ("d < TIMESTAMP '1970-01-01 00:00:01' AND id > 1", [2]),
            ("d IN (TIMESTAMP '1970-01-02 00:00:00', TIMESTAMP '1582-10-04 00:00:01')", [3]),
            ("NOT d = TIMESTAMP_NTZ '1970-01-01 00:00:00'", [1, 3]),
        ):
            assert _ids(table.scan(where).to_polars()) == ids
            assert table.count(where) == len(ids)
        assert table.delete("d > TIMESTAMP '1970-01-01 00:00:01'").metrics["numDeletedRows"] == 1
    with pytest.raises(ValidationError, match="can't be compared"):
        table.scan("d = 5")


def test_columns_beside_columns_of_other_types(lake):
    """As in Spark, and as delete has it."""
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]
    times = pa.array(["2024-01-01 01:00", "2024-01-02 00:00", "2024-01-03 00:00"])
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "d": days,
            "u": times.cast(pa.timestamp("us")),
            "t": times.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "s": ["1", "3", "3"],
        }
    )
    table = lake.create_table("mixed", data=rows)
    for where, ids in (("u > d", [1]), ("d = t", [2]), ("t <= u AND id > 1", [2, 3]),
                       ("s = id", [1, 3]), ("u = TIMESTAMP '2024-01-02 00:00:00Z'", [2]),
                       ("u < '2024-01-02 00:00:00+02:00'", [1])):  # fmt: skip
        assert _ids(table.scan(where).to_polars()) == ids
        assert table.count(where) == _deleted(lake, table, where) == len(ids)
    with pytest.raises(UnsupportedFeatureError, match="can't mix"):
        table.scan("id = d")


def _deleted(lake, table, where) -> int:
    """How many rows a delete would take."""
    with contextlib.suppress(InterruptedError), lake.transaction() as tx:
        told = tx.table(table.name).delete(where)
        raise InterruptedError
    return told["numDeletedRows"]


def test_elements_of_arrays_and_maps(lake):
    """As in Spark: a place beyond the array fails, a key that is not there has no value."""
    tags = pa.array([["x", "y"], ["z"], None])
    pairs = pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32()))
    table = lake.create_table("nested", data=pa.table({"id": [1, 2, 3], "tags": tags, "m": pairs}))
    for where, ids in (("tags[0] = 'z'", [2]), ("m['k'] = 1", [1]), ("m['k'] IS NULL", [2, 3]),
                       ("size(tags) = 2", [1]), ("array_contains(tags, 'y')", [1])):  # fmt: skip
        assert _ids(table.scan(where).to_polars()) == ids
    for beyond in ("tags[1] = 'y'", "tags[-1] = 'y'"):
        with pytest.raises(ValidationError, match="can't be evaluated"):
            table.scan(beyond).to_arrow()


def test_longs_keep_their_digits(lake):
    table = lake.create_table("longs", data=pa.table({"id": [2**53 + 1, 2**53]}))
    assert table.count(f"floor(id) = {2**53 + 1}") == table.count(f"ceil(id) = {2**53}") == 1


def test_conditions_beyond_the_log(lake):
    table = lake.create_table("beyond", data=ROWS, partition_by=["day"])
    assert _ids(table.scan("id % 2 = 0").to_polars()) == [2, 4]
    assert _ids(table.scan("upper(day) = 'A' AND id > 1").to_polars()) == [2]
    assert table.scan("n * 2 > 1", columns=["n"]).to_arrow().to_pylist() == [{"n": 2.0}, {"n": 3.0}]
    assert table.count("coalesce(n, 0) = 0") == 1
    assert table.scan("1 + 1 = 2", limit=2).to_arrow().num_rows == 2
    for where in ("current_timestamp > TIMESTAMP '2000-01-01 00:00:00'", "target.id = 1",
                  "(id > 1) IS TRUE", "floor(id) = 1"):  # fmt: skip
        # A user looks first at what will be deleted.
        assert table.count(where) == _deleted(lake, table, where) > 0
    with pytest.raises(UnsupportedFeatureError, match="function rand"):
        table.scan("rand() < 0.5")
    with pytest.raises(ValidationError, match="malformed at position"):
        table.scan("id >")
