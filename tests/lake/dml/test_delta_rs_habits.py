"""What users of delta-rs are used to: written from its documentation, feature by feature."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import deltalake
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

import deltasql
from deltasql.errors import (
    SchemaMismatchError,
    TableExistsError,
    ValidationError,
)

ROWS = pa.table({"id": [1, 2, 3], "n": [10, 20, 30], "t": ["a", "b", "c"]})
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("habits")
    url = f"sqlite:///{root / 'lake.db'}"
    with deltasql.connect(url, location=root.as_uri(), settings={"mirror.mode": "off"}) as lake:
        yield lake


@pytest.fixture
def make(lake):
    return lambda data=ROWS, **more: lake.create_table(f"h{next(NUMBERS)}", data=data, **more)


def _rows(table):
    return sorted(table.scan().to_arrow().to_pylist(), key=repr)


# --- modes -------------------------------------------------------------------------------


def test_the_modes_of_a_write(lake):
    name = f"modes{next(NUMBERS)}"
    first = lake.write(ROWS, name, mode="error", partition_by=["t"])
    assert (first, first.metrics["numOutputRows"]) == (0, 3)
    with pytest.raises(TableExistsError, match="the mode is 'error'"):
        lake.write(ROWS, name, mode="error")
    assert lake.write(ROWS, name, mode="ignore") == 0
    assert lake.write(ROWS, name).metrics["numOutputRows"] == 3
    assert lake.write(ROWS, name, mode="append", partition_by=["t"]) == 2
    assert lake.table(name).count() == 9
    one = lake.write(ROWS.slice(0, 1), name, mode="overwrite", predicate="id = 1")
    assert (one.metrics["numDeletedRows"], lake.table(name).count()) == (3, 7)
    lake.write(ROWS, name, mode="overwrite")
    assert lake.table(name).count() == 3
    lake.write(ROWS.select(["id"]), name, mode="overwrite", schema_mode="overwrite",
               partition_by=[])  # fmt: skip
    assert lake.table(name).scan().to_arrow().column_names == ["id"]


def test_what_a_mode_does_not_take(lake, make):
    name = make(partition_by=["t"]).name
    with pytest.raises(ValidationError, match="'upsert' is unknown"):
        lake.write(ROWS, name, mode="upsert")
    with pytest.raises(ValidationError, match="no meaning in mode 'append'"):
        lake.write(ROWS, name, where="id = 1")
    with pytest.raises(ValidationError, match="partitioned by t"):
        lake.write(ROWS, name, partition_by=["id"])
    with pytest.raises(ValidationError, match="app_id has no meaning"):
        lake.write(ROWS, name, mode="ignore", app_id="a", app_version=1)
    with pytest.raises(ValidationError, match="no rows"):
        lake.write(None, name)


@pytest.mark.parametrize("where", ["t = 'a'", "upper(t) = 'A'"])
@pytest.mark.parametrize("rows", [lambda: ROWS, ROWS.to_reader], ids=["table", "stream"])
def test_the_first_rows_must_satisfy_their_condition_too(lake, where, rows):
    name = f"first{next(NUMBERS)}"
    with pytest.raises(SchemaMismatchError, match="2 rows break the overwrite's own condition"):
        lake.write(rows(), name, "overwrite", where=where)
    assert name not in {table.name for table in lake.tables()}
    assert lake.write(ROWS.slice(0, 1), name, "overwrite", where=where) == 0


def test_a_column_without_a_type_says_how_to_get_one(make):
    with pytest.raises(deltasql.UnsupportedFeatureError, match="cast the column to a type"):
        make(pa.table({"id": [1], "nothing": pa.nulls(1)}))


def test_an_overwrite_may_happen_once(lake, make):
    table = make()
    for rows in (ROWS.slice(0, 1), ROWS):
        done = table.overwrite(rows, app_id="job", app_version=7)
        assert (done, table.count()) == (1, 1)
        assert lake.write(rows, table.name, "overwrite", app_id="job", app_version=7) == 1
    assert table.snapshot().txns == {"job": 7}


def test_a_write_that_happens_once_makes_its_table(lake):
    name = f"once{next(NUMBERS)}"
    for _ in range(2):
        lake.write(ROWS, name, app_id="job", app_version=1)
    assert lake.table(name).count() == 3


# --- merge -------------------------------------------------------------------------------


def test_clauses_take_what_to_set_first(make):
    table = make()
    source = pa.table({"id": [1, 2, 9], "n": [0, 1, 2]})
    result = (
        table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update({"n": "s.n"}, "s.n = 0")
        .when_matched_update({"t": "'kept'"}, predicate="s.n = 1")
        .when_not_matched_insert({"id": "s.id", "n": "s.n"})
        .when_not_matched_by_source_update({"n": "t.n + 1"})
        .execute()
    )
    assert result.metrics["numTargetRowsUpdated"] == 3
    assert _rows(table) == [
        {"id": 1, "n": 0, "t": "a"},
        {"id": 2, "n": 20, "t": "kept"},
        {"id": 3, "n": 31, "t": "c"},
        {"id": 9, "n": 2, "t": None},
    ]


def test_a_merge_may_grow_the_schema_by_an_argument(make):
    table = make()
    source = pa.table({"id": [4], "n": [0], "t": ["d"], "new": [True]})
    merge = table.merge(source, "target.id = source.id", merge_schema=True)
    merge.when_not_matched_insert_all().execute()
    assert table.count("new") == 1


def test_all_columns_leave_computed_ones_to_the_table(lake):
    computed = {"delta.generationExpression": "id + 1"}
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()),
                        pa.field("g", pa.int64(), metadata=computed)])  # fmt: skip
    table = lake.create_table(f"h{next(NUMBERS)}", schema)
    for n in (1, 2):
        source = pa.table({"id": [7], "n": [n]})
        merge = table.merge(source, "target.id = source.id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert _rows(table) == [{"id": 7, "n": 2, "g": 8}]


def test_columns_left_out_and_names_in_quotes(make):
    odd = pa.table({"Id of": [1, 2], "a.b": ["x", "y"], "camelCase": [1, 2]})
    table = make(odd, properties={"delta.columnMapping.mode": "name"})
    source = pa.table({"Id of": [2, 3], "a.b": ["n", "m"], "camelCase": [5, 6]})
    merge = table.merge(source, 't."Id of" = s.`Id of`', source_alias="s", target_alias="t")
    merge.when_matched_update_all(except_cols=["camelCase"]).when_not_matched_insert_all(
        except_cols=["a.b"]
    ).execute()
    assert [tuple(row.values()) for row in _rows(table)] == [
        (1, "x", 1),
        (2, "n", 2),
        (3, None, 6),
    ]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(
    "keys",
    [
        pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
        pa.array(["2024-01-01 10:30:15.123456", "2024-01-02"]).cast(pa.timestamp("us")),
        pa.array(["2024-01-01 10:30Z", "2024-01-02 00:00Z"]).cast(pa.timestamp("us", "UTC")),
        pa.array([Decimal("1.10"), Decimal("2.20")], pa.decimal128(7, 2)),
        pa.array(["a b", "ü/é=1%20"]),
        pa.array([True, False]),
    ],
    ids=["date", "ntz", "timestamp", "decimal", "odd text", "boolean"],
)  # fmt: skip
def test_merging_twice_is_merging_once(make, keys, partitioned):
    rows = pa.table({"k": keys, "v": [1, 2]})
    table = make(rows.slice(0, 1), partition_by=["k"] if partitioned else [])
    for _ in range(2):
        merge = table.merge(rows, "target.k = source.k")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert _rows(table) == sorted(rows.to_pylist(), key=repr)


def test_sources_with_types_that_can_be_cast(make):
    table = make(pa.table({"id": pa.array([1], pa.int64()), "v": [1.0]}))
    source = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["5", "6"]})
    merge = table.merge(source, "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert [row["v"] for row in _rows(table)] == [5.0, 6.0]
    source = pa.table({"id": [1], "v": ["five"]})
    with pytest.raises(deltasql.DeltaSqlError, match="can't be evaluated"):
        table.merge(source, "target.id = source.id").when_matched_update_all().execute()
    assert [row["v"] for row in _rows(table)] == [5.0, 6.0]


def test_several_matches_are_refused_as_by_delta(make):
    """Also where delta-rs lets them pass: of the rows that match only one would change a row."""
    table = make()
    source = pa.table({"id": [1, 1], "n": [0, 1]})
    merge = table.merge(source, "target.id = source.id")
    with pytest.raises(ValidationError, match="several rows"):
        merge.when_matched_update({"n": "source.n"}, "source.n = 0").execute()
    with pytest.raises(ValidationError, match="several rows"):
        merge.when_not_matched_by_source_delete().execute()
    assert merge.when_matched_delete().execute().metrics["numTargetRowsDeleted"] == 1


# --- update and overwrite ----------------------------------------------------------------


def test_values_of_lists_and_structs(make):
    table = make(pa.table({"id": [1], "l": [["a"]], "s": [{"a": 1, "b": "x"}]}))
    table.update(new_values={"l": ["q", "r's", None], "s": {"a": 7, "b": "z"}})
    assert _rows(table) == [{"id": 1, "l": ["q", "r's", None], "s": {"a": 7, "b": "z"}}]


def test_an_overwrite_says_what_it_kept(make):
    feed = {"delta.enableChangeDataFeed": "true"}
    table = make(properties=feed)
    result = table.overwrite(ROWS.slice(0, 1), predicate="id = 1")
    told = {"numOutputRows": 3, "numDeletedRows": 1, "numCopiedRows": 2, "numAddedChangeFiles": 1}
    assert told.items() <= result.metrics.items()
    with pytest.raises(ValidationError, match="two names"):
        table.overwrite(ROWS, "id = 1", predicate="id = 1")


def test_a_delete_of_whole_files_counts_vectors_that_went(make):
    table = make(properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 1")
    metrics = table.delete().metrics
    assert (metrics["numDeletedRows"], metrics["numDeletionVectorsRemoved"]) == (2, 1)


@pytest.mark.parametrize(
    ("where", "told"),
    # Files that lost rows count as removed; vectors count where a condition picks rows.
    [
        ("id = 2", {"Added": 1, "Removed": 1, "Updated": 1}),
        ("id > 1", {"Added": 0, "Removed": 1, "Updated": 0}),
        ("t = 'a'", {"Added": 0, "Removed": 0, "Updated": 0}),
        (None, {"Added": 0, "Removed": 0, "Updated": 0}),
    ],
)
def test_an_update_tells_of_files_and_vectors_as_stock_delta(make, where, told):
    rows = ROWS.set_column(2, "t", [["a", "a", "a"]])
    table = make(rows, partition_by=["t"], properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 1")
    metrics = table.update(where, {"n": "n + 1"}).metrics
    assert {name: metrics[f"numDeletionVectors{name}"] for name in told} == told
    assert (metrics["numRemovedFiles"], metrics["numAddedFiles"]) == (1, 1)


# --- schemas and sources ------------------------------------------------------------------


@pytest.mark.parametrize("key", ["delta.minReaderVersion", "delta.minWriterVersion"])
def test_versions_of_the_protocol_that_do_not_exist(lake, make, key):
    table = make()
    table.set_properties({key: "3"})
    for properties in ({key: "8"}, {key: "x"}):
        with pytest.raises(ValidationError, match=f"{key} must be an integer from 1"):
            table.set_properties(properties)
        with pytest.raises(ValidationError, match=f"{key} must be an integer from 1"):
            make(properties=properties)
    assert key not in table.snapshot().properties


def test_columns_are_added_as_a_list_of_fields(make):
    table = make()
    table.add_columns([pa.field("x", pa.timestamp("us")), pa.field("y", pa.list_(pa.int32()))])
    assert table.scan().to_arrow().column_names == ["id", "n", "t", "x", "y"]


def test_generated_columns_come_with_their_table_only(make):
    field = pa.field("g", pa.int64(), metadata={"delta.generationExpression": "id + 1"})
    table = make()
    with pytest.raises(ValidationError, match="it is generated"):
        table.add_columns(pa.schema([field]))
    rows = pa.table({"id": [4], "g": [5]}, schema=pa.schema([("id", pa.int64()), field]))
    with pytest.raises(ValidationError, match="it is generated"):
        table.append(rows, schema_mode="merge")


def test_years_of_days_are_computed(lake):
    first = pa.field("first", pa.date32(), metadata={"delta.generationExpression":
                                                     "TRUNC(day, 'YEAR')"})  # fmt: skip
    table = lake.create_table(f"h{next(NUMBERS)}", pa.schema([("day", pa.date32()), first]))
    table.append(pa.table({"day": [dt.date(2024, 5, 6)]}))
    assert _rows(table)[0]["first"] == dt.date(2024, 1, 1)


def test_a_dataset_is_a_source(make):
    table = make()
    table.append(dataset(ROWS))
    assert table.count() == 6


def test_polars_categories_are_a_source(make):
    kinds = {"id": pl.Int64, "c": pl.Categorical, "e": pl.Enum(["a", "b"])}
    frame = pl.DataFrame({"id": [1, 2, 3], "c": ["x", None, "x"], "e": ["a", "b", None]}, kinds)
    table = make(frame)
    table.append(frame)
    merge = table.merge(frame.lazy(), "target.c = source.c AND target.id = source.id")
    assert merge.when_matched_update_all().execute().metrics["numTargetRowsUpdated"] == 4
    assert _rows(table) == sorted(2 * frame.to_dicts(), key=repr)


@pytest.mark.parametrize("empty", [list, lambda: iter([])])
def test_nothing_at_all_has_no_columns(make, empty):
    table = make()
    for write in (table.append, table.overwrite, make):
        with pytest.raises(ValidationError, match="has no columns"):
            write(empty())
    with pytest.raises(ValidationError, match="has no columns"):
        table.merge(empty(), "target.id = source.id").when_matched_delete().execute()
    assert table.version == 0


def test_tables_in_a_row_are_a_source(make):
    table = make()
    table.append([ROWS, ROWS])
    table.append(rows for rows in (ROWS.slice(0, 0), ROWS))
    assert table.count() == 12


@pytest.mark.parametrize("clause", ["when_not_matched_insert_all", "when_matched_delete"])
def test_a_stream_is_merged_once(make, clause):
    """Run again, the merge would find an empty source, and delete what that lacks."""
    table = make()
    for source in (ROWS.slice(1).to_reader(), (batch for batch in ROWS.slice(1).to_batches())):
        merge = getattr(table.merge(source, "target.id = source.id"), clause)()
        merge = merge.when_not_matched_by_source_delete("target.id > 1")
        merge.execute()
        rows = _rows(table)
        with pytest.raises(ValidationError, match="has been read already"):
            merge.execute()
        assert _rows(table) == rows
    twice = make().merge(ROWS, "target.id = source.id").when_matched_delete()
    assert [twice.execute().metrics["numTargetRowsDeleted"] for _ in range(2)] == [3, 0]


def test_both_sides_of_a_merge_need_names(make):
    with pytest.raises(ValidationError, match="both called 'T'"):
        make().merge(ROWS, "t.id = t.id", source_alias="t", target_alias="T")


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (np.int64(7), 7), (np.float64(7), 7), (pd.Series([6, 7]).max(), 7), (pa.scalar(7), 7),
        (pd.NaT, None), (pd.NA, None), (np.bool_(True), 1),
    ],
)  # fmt: skip
def test_values_of_other_libraries(make, value, left):
    table = make()
    table.update("id = 1", {"n": value})
    table.update("id = 2", new_values={"n": value})
    assert [row["n"] for row in _rows(table)] == [left, left, 30]
    with pytest.raises(ValidationError, match="can't be set to a ndarray"):
        table.update("id = 1", {"n": np.array([1, 2])})


def test_columns_of_several_types_are_named(make):
    with pytest.raises(SchemaMismatchError, match="column t"):
        make().append(pd.DataFrame({"id": [1, 2], "n": [1, 2], "t": ["a", 5]}))


def test_schemas_of_every_library(lake, make):
    """Whatever has Arrow's schema capsule is a schema."""
    theirs = deltalake.Schema(
        [deltalake.Field("id", "long", nullable=False, metadata={"comment": "the key"})]
    )
    table = lake.create_table("schemas", theirs)
    assert table.snapshot().schema.field("id").metadata == {b"comment": b"the key"}
    assert not table.snapshot().schema.field("id").nullable
    table.add_columns(pl.Schema({"day": pl.Date}))
    table.add_columns([deltalake.Field("more", "string")])
    assert table.snapshot().schema.names == ["id", "day", "more"]
    lake.create_or_replace_table("schemas", pl.Schema({"n": pl.Int32}))
    assert table.snapshot().schema.types == [pa.int32()]
    with pytest.raises(ValidationError, match="not an Arrow field"):
        lake.create_table("no schema", pa.int32())
    with pytest.raises(ValidationError, match="an ArrowSchema"):
        lake.create_table("no schema", 7)


@pytest.mark.parametrize("kind", ["frames", "batches of another library", "readers"])
def test_what_speaks_arrow_in_a_row_is_a_source(make, kind):
    """A list, and a generator, of anything that is a source by itself."""
    table, make_one = make(), {
        "frames": pl.from_arrow,
        "batches of another library": lambda rows: Capsule(rows.to_batches()[0]),
        "readers": lambda rows: rows.to_reader(),
    }[kind]  # fmt: skip
    table.append([make_one(ROWS), make_one(ROWS)])
    table.append(make_one(ROWS) for _ in range(2))
    assert table.count() == 5 * ROWS.num_rows
    table.merge((make_one(ROWS) for _ in range(1)), "false").when_not_matched_insert_all().execute()
    assert table.count() == 6 * ROWS.num_rows


class Capsule:
    """A batch that only its capsules tell to be one."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("by", [[], ["t"]])
def test_files_are_chosen_by_any_condition(make, by):
    """As rows are: a number beside a text is compared as Spark does, so no file may be missing."""
    table = make(ROWS.set_column(2, "t", [["1", "01", "2"]]), partition_by=by)
    files = table.snapshot().files()
    for where in ("t = 1", "t IN (1, 2)", "upper(t) = '2'"):
        found = table.snapshot().files(where).column("path").to_pylist()
        assert found == files.column("path").to_pylist()
    assert table.snapshot().files("t = '1' AND length(t) = 1").num_rows == 1
    assert table.snapshot().files("id > 9 AND t = 1").num_rows == 0
    with pytest.raises(ValidationError, match="unknown column"):
        table.snapshot().files("nope = 1")


# --- rows --------------------------------------------------------------------------------


def test_types_that_delta_has_other_words_for(make):
    rows = pa.table(
        {
            "large": pa.array(["x"], pa.large_string()),
            "view": pa.array(["x"], pa.string_view()),
            "dictionary": pa.array(["x"]).dictionary_encode(),
            "list": pa.array([["x"]], pa.large_list(pa.large_string())),
            "fixed": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
            "unsigned": pa.array([2**64 - 1], pa.uint64()),
            "day": pa.array([dt.date(2024, 1, 1)], pa.date64()),
            "moment": pa.array([0], pa.timestamp("ns")),
            "decimal": pa.array([Decimal("1.5")], pa.decimal256(38, 2)),
            "nested": pa.array(
                [{"m": [("k", [{"x": 1}, None])]}],
                pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int32())]))))]),
            ),
        }
    )
    table = make(rows)
    table.append(rows)
    table.update("large = 'x'", {"large": "'y'"})
    found = table.scan().to_arrow()
    assert found.drop_columns(["large", "unsigned"]).to_pylist() == [
        row for _ in range(2) for row in rows.drop_columns(["large", "unsigned"]).to_pylist()
    ]
    assert found.column("unsigned").to_pylist() == [Decimal(2**64 - 1)] * 2


def test_values_that_would_be_lost_are_refused(make):
    table = make(pa.table({"small": pa.array([1], pa.int8()),
                           "moment": pa.array([0], pa.timestamp("us"))}))  # fmt: skip
    for name, value in (
        ("small", pa.array([2000])),
        ("small", pa.array(["7"])),
        ("moment", pa.array([1], pa.timestamp("ns"))),
    ):
        with pytest.raises(SchemaMismatchError, match=f"'{name}' does not fit"):
            table.append(pa.table({name: value}))
    assert table.count() == 1
