"""The writers of `format("deltasql")`: Spark calls `abort`, too, when `commit` has failed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

import deltasql
from deltasql.errors import CommitStateUnknownError
from deltasql.spark.datasource.source import DeltaSqlSource
from deltasql.spark.datasource.writer import WrittenFiles
from deltasql.spark.sessions import profiles
from tests.faults.outcomes import Faults, rows

SCHEMA = StructType().add("id", LongType()).add("v", StringType())


@pytest.fixture
def lake(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        yield lake


@pytest.fixture(params=["batch", "stream"])
def writer(request, lake, sqlite_url, tmp_path, monkeypatch):
    """A writer as Spark makes it, in this process; what it opens breaks when `point` is set."""
    monkeypatch.setattr(profiles, "storage_options", lambda *_: {})
    monkeypatch.setattr(DeltaSqlSource, "kept", None, raising=False)
    options = {"path": "t"} if request.param == "batch" else {"path": "t", "txnAppId": "app"}

    class Source(DeltaSqlSource):
        point = ""

        def open(self):
            settings = {"sql.timeout": "1s"}
            place = (tmp_path / "lake").as_uri()
            found = deltasql.connect(sqlite_url, location=place, settings=settings)
            if self.point:
                Faults(found, self.point).arm()
            return found

    class Writer:
        def __init__(self):
            self.source = Source(options)
            is_batch = request.param == "batch"
            make = self.source.writer if is_batch else self.source.streamWriter
            self.batch = () if is_batch else (7,)
            self.inner = make(SCHEMA, overwrite=False)

        def write(self, *ids):
            return self.inner.write(iter(rows(*ids).to_batches()))

        def commit(self, messages):
            self.inner.commit(messages, *self.batch)

        def abort(self, messages):
            self.source.point = ""
            self.inner.abort(messages, *self.batch)

    return Writer


def _ids(lake):
    return sorted(lake.table("t").scan().to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("is_new", [True, False], ids=["new table", "append"])
def test_abort_after_a_commit_that_is_in(lake, writer, is_new):
    if not is_new:
        lake.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    writing = writer()
    messages = [writing.write(1, 2), writing.write(3)]
    writing.source.point = "lost for good"
    with pytest.raises(CommitStateUnknownError):
        writing.commit(messages)
    writing.abort(messages)
    assert _ids(lake) == [1, 2, 3]


def test_abort_after_a_task_failed(lake, writer, tmp_path):
    lake.create_table("t", rows(1).schema).append(rows(1))
    before = sorted(tmp_path.rglob("*.parquet"))
    writing = writer()
    message = writing.write(2)
    assert sorted(tmp_path.rglob("*.parquet")) != before
    writing.abort([message, None])
    assert sorted(tmp_path.rglob("*.parquet")) == before
    # Whatever Spark says: what a version has stays.
    writing.abort([WrittenFiles(tuple(lake.table("t").snapshot().adds())), None])
    assert _ids(lake) == [1]


# A stream creates its table before it writes.
@pytest.mark.parametrize("writer", ["batch"], indirect=True)
def test_a_new_table_of_somebody_else(lake, writer, tmp_path):
    """The rows of who was slower go, those of the other stay."""
    writing = writer()
    message = writing.write(2)
    lake.create_table("t", rows(1).schema).append(rows(1))
    with pytest.raises(deltasql.ValidationError, match="somebody else has just created"):
        writing.commit([message])
    writing.abort([message])
    assert _ids(lake) == [1]
    assert len(list(tmp_path.rglob("part-*.parquet"))) == 1
