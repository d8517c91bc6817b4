"""Many files, of which the log alone knows: readers list what SQL has."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltasql.spec.actions import AddFile, RemoveFile
from tests.readers.engines import DeltaRs, files_of, place
from tests.readers.tables import FORMS
from tests.sizes import FULL

# More than a row group of a checkpoint holds.
FILES = 50_000 if FULL else 10_000
STATS = '{"numRecords":1,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}'
pytestmark = pytest.mark.timeout(600)


def add(number: int) -> AddFile:
    day = f"2026-11-{number % 28 + 1:02}"
    return AddFile(
        path=f"day={day}/part-{number:05}.parquet",
        size=1000 + number,
        modification_time=number,
        partition_values={"day": day},
        stats=STATS % (number, number),
    )


@pytest.mark.parametrize("form", FORMS)
def test_readers_list_the_files_of_sql(lake, duck, spark, form):
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table = lake.create_table(f"many.{form}", schema, partition_by=["day"], properties=FORMS[form])
    adds = [add(number) for number in range(FILES)]
    table.commit(adds)
    gone = [RemoveFile.of(item, deletion_timestamp=1) for item in adds[::1000]]
    table.commit(gone, read_version=1, reads="all")
    table.commit([{"txn": {"appId": "last", "version": 1}}])
    lake.mirror.run(once=True)
    root = place(table)
    for version, count in ((None, FILES - len(gone)), (1, FILES)):
        files = files_of(table.snapshot(version).adds())
        assert len(files) == count
        assert DeltaRs().files(root, version) == files
        assert duck.files(root, version) == files
        assert spark.files(root, version) == files
