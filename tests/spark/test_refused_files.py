"""A write that is refused leaves no file behind: neither rows nor changes nor deletion vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import deltasql
import deltasql.spark
from deltasql.errors import DatabaseError
from deltasql.spark import Database
from tests.faults.matrix.striking import Kind, Strike, striking

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {**FEED, "delta.enableDeletionVectors": "true"}


def _merge(db: Database, rows: DataFrame) -> None:
    merge = db.table("t").merge(rows, "target.id = source.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _transaction(db: Database, rows: DataFrame) -> None:
    with db.transaction() as tx:
        tx.write(rows, "t")
        tx.table("t").delete("id = 1")


CALLS = {
    "replace where": lambda db, rows: db.write(
        rows, "t", mode="overwrite", replace_where="id >= 2 AND p = 'a'"
    ),
    "update": lambda db, _: db.table("t").update("id = 2", {"v": "'changed'"}),
    "merge": _merge,
    "transaction": _transaction,
}


@pytest.fixture
def lake(tmp_path) -> Iterator[deltasql.Lake]:
    url, location = f"sqlite:///{tmp_path / 'lake.db'}", (tmp_path / "lake").as_uri()
    with deltasql.connect(url, location=location, settings={"mirror.mode": "off"}) as lake:
        yield lake


@pytest.fixture
def make(spark, lake) -> Callable[..., Database]:
    """A table of the properties with two files: ids 1 to 3 in partition a, 10 to 12 in b."""

    def made(**properties: str) -> Database:
        db = deltasql.spark.attach(spark, lake)
        for first, p in ((1, "a"), (10, "b")):
            rows = spark.range(first, first + 3, 1, 1).selectExpr("id", "'x' AS v", f"'{p}' AS p")
            db.write(rows, "t", partition_by="p" if p == "a" else (), properties=properties)
        return db

    return made


@pytest.fixture
def files(tmp_path) -> Callable[[], set[Path]]:
    """The files of the table; Hadoop's checksums beside them are no files of ours."""
    return lambda: {
        item for item in (tmp_path / "lake" / "t").rglob("*.*") if item.suffix != ".crc"
    }


@pytest.mark.parametrize(
    ("call", "properties"),
    [("replace where", FEED), ("merge", FEED), ("transaction", FEED), ("update", VECTORS)],
    ids=["replace where", "merge", "transaction", "update with vectors"],
)
def test_the_commit_is_refused(spark, make, files, call, properties):
    db = make(**properties)
    rows = spark.sql("SELECT 2L AS id, 'y' AS v, 'a' AS p UNION ALL SELECT 9L, 'y', 'a'")
    before = files()
    with striking(Strike(Kind.REFUSED, 0)) as striker:
        striker.is_armed = True
        with pytest.raises(DatabaseError, match="disk is full"):
            CALLS[call](db, rows)
    assert files() == before
    CALLS[call](db, rows)
    assert any("_change_data" in item.parts for item in files())


def test_changes_fail_after_the_rows_are_written(spark, make, lake, files):
    """A replacement writes its rows, then what it changed, for which it reads files that go."""
    db = make(**FEED)
    before = files()
    _path_of(lake, "b").unlink()
    new = spark.sql("SELECT 77L AS id, 'y' AS v, 'b' AS p")
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        db.write(new, "t", mode="overwrite", replace_where="p = 'b' OR id = 3")
    # What the tasks of a failed job have written nobody can name: that is vacuum's.
    rows = [item for item in files() - before if "_change_data" not in item.parts]
    assert not [item for item in rows if 77 in pq.read_table(item)["id"].to_pylist()]


def test_a_transaction_fails_half_way_through_its_changes(spark, make, lake, files):
    """The rows that came are written down as changes before those that went can't be read."""
    db = make(**FEED)
    before = files()
    gone = _path_of(lake, "b")

    def fail_half_way() -> None:
        with db.transaction() as tx:
            tx.write(spark.sql("SELECT 5L AS id, 'y' AS v, 'a' AS p"), "t")
            tx.table("t").update("id = 2", {"v": "'changed'"})
            tx.table("t").delete("p = 'b'")
            gone.unlink()

    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        fail_half_way()
    assert files() == before - {gone}


def _path_of(lake: deltasql.Lake, p: str) -> Path:
    """The file of a partition."""
    table = lake.table("t")
    (add,) = (add for add in table.snapshot().adds() if add.partition_values == {"p": p})
    return Path(unquote(urlsplit(table.location).path)) / unquote(add.path)
