"""How files are written, as callers ask for it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql import BloomFilter, ColumnProperties, ValidationError, WriterProperties

ROWS = pa.table(
    {
        "id": pa.arange(0, 1000),
        "s": [f"text {n % 10}" for n in range(1000)],
        "inner": [{"a": n, "b": [n]} for n in range(1000)],
    }
)
ZSTD = WriterProperties(
    compression="zstd",
    compression_level=5,
    row_group_size=400,
    columns={
        "s": ColumnProperties(dictionary=False, statistics=False),
        "ID": ColumnProperties(
            compression="gzip", bloom_filter=BloomFilter(distinct_values=1000, false_positives=0.1)
        ),
        "inner.a": ColumnProperties(encoding="DELTA_BINARY_PACKED"),
        "inner.b": ColumnProperties(compression="uncompressed"),
    },
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("properties")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


def columns(table, path: str):
    """The footer of a file, and its first row group's columns by their paths."""
    footer = pq.read_metadata(f"{table.location}/{path}")
    group = footer.row_group(0)
    found = [group.column(n) for n in range(group.num_columns)]
    return footer, {item.path_in_schema: item for item in found}


def newest(table, version: int):
    added = [a for a in table.changes(version)[0].actions if isinstance(a, deltasql.AddFile)]
    return added[0].path


def check(table, version: int) -> None:
    path = newest(table, version)
    footer, found = columns(table, path)
    assert path.endswith(".zstd.parquet")
    assert footer.num_row_groups == 3
    names = {item.name: item.physical_name for item in table.snapshot().state.schema.fields}
    ids, texts = found[names["id"]], found[names["s"]]
    assert (ids.compression, texts.compression) == ("GZIP", "ZSTD")
    assert ids.has_dictionary_page
    assert not texts.has_dictionary_page
    assert ids.is_stats_set
    assert not texts.is_stats_set
    (packed,) = [item for key, item in found.items() if not key.endswith("element")
                 and item not in (ids, texts)]  # fmt: skip
    assert "DELTA_BINARY_PACKED" in packed.encodings
    assert [i.compression for k, i in found.items() if k.endswith("element")] == ["UNCOMPRESSED"]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_every_write_has_them(lake, mode):
    properties = {"delta.columnMapping.mode": mode}
    table = lake.create_table(f"all.{mode}", data=ROWS, properties=properties, writer=ZSTD)
    check(table, 0)
    check(table, table.append(ROWS, writer=ZSTD))
    check(table, table.overwrite(ROWS, writer=ZSTD))
    check(table, table.update("id < 5", {"s": "'x'"}, writer=ZSTD))
    merge = table.merge(ROWS, "target.id = source.id", writer=ZSTD)
    check(table, merge.when_matched_update_all().execute())
    with lake.transaction() as tx:
        tx.table(table.name).append(ROWS, writer=ZSTD)
    check(table, table.version)
    assert table.count() == 2000


def test_files_have_the_size_that_was_asked_for(lake):
    table = lake.create_table("sized", ROWS.schema)
    plain = WriterProperties(compression="none", row_group_size=100)
    done = table.append(ROWS, writer=plain, target_file_size=2_000)
    assert done.metrics["numFiles"] == 10
    assert table.append(ROWS).metrics["numFiles"] == 1
    assert table.scan().to_arrow().num_rows == 2000


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"compression": "lzo"}, "compression"),
        ({"compression": "snappy", "compression_level": 3}, "level"),
        ({"row_group_size": 0}, "row_group_size"),
        ({"columns": {"id": "zstd"}}, "ColumnProperties"),
    ],
)
def test_what_makes_no_sense_is_refused(given, problem):
    with pytest.raises(ValidationError) as error:
        WriterProperties(**given)
    assert problem in str(error.value)


def test_unknown_columns_are_refused(lake):
    table = lake.create_table("unknown", ROWS.schema)
    with pytest.raises(ValidationError, match="unknown column 'nope'"):
        table.append(ROWS, writer=WriterProperties(columns={"nope": ColumnProperties()}))
    with pytest.raises(ValidationError, match="target_file_size"):
        table.append(ROWS, target_file_size=0)
    assert table.version == 0


def test_a_lost_race_is_run_again(lake):
    table = lake.create_table("raced", data=pa.table({"id": [1, 2, 3]}))
    rows, original = pa.table({"id": [9]}), table.base
    rivals = iter(["id = 1", "id = 2"])

    def raced():
        found = original()
        if rival := next(rivals, None):
            lake.table("raced").delete(rival)
        return found

    table.base = raced
    with pytest.raises(deltasql.CommitError):
        table.overwrite(rows)
    table.overwrite(iter(rows.to_batches()), max_commit_retries=1)
    assert table.scan().to_arrow() == rows
