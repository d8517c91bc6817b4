"""Deletes, updates and merges from Arrow: what they take, what they tell, what they refuse."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlsplit

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import (
    CommitError,
    ConcurrentAppendError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    ValidationError,
)

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.float64())])


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("verbs")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


@pytest.fixture
def table(lake, request):
    name = f"t.{abs(hash(request.node.nodeid))}"
    made = lake.create_table(name, SCHEMA, partition_by=["day"])
    made.append(rows((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, None, None)))
    return made


def rows(*given, schema=SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in given], schema=schema
    )


def found(table) -> list[tuple]:
    return sorted((tuple(r.values()) for r in table.scan().to_arrow().to_pylist()), key=repr)


# --- results ------------------------------------------------------------------------------


def test_a_result_is_the_version_and_tells_what_happened(table):
    result = table.delete("id <= 2")
    assert result == 2
    assert result == table.version
    assert isinstance(result, int)
    assert f"{result}" == "2"
    assert result.version == 2
    assert result.metrics["numDeletedRows"] == 2
    assert pickle.loads(pickle.dumps(result)).metrics == result.metrics
    (change,) = table.changes(2)
    told = change.actions[0].extra["operationMetrics"]
    assert told == {name: str(value) for name, value in result.metrics.items()}


def test_what_finds_no_row_commits_nothing(table):
    for run in (
        lambda: table.delete("id = 99"),
        lambda: table.update("id = 99", {"n": "1"}),
        lambda: table.merge(rows(), "target.id = source.id").when_matched_delete().execute(),
    ):
        result = run()
        assert result == table.version == 1
        assert sum(v for k, v in result.metrics.items() if "Rows" in k and "Copied" not in k) == 0


def test_whole_partitions_go_unread(table):
    for path in table.snapshot().files(where="day = 'a'").column("path").to_pylist():
        (_folder(table) / path).write_bytes(b"not Parquet")
    assert table.delete("day = 'a'").metrics["numDeletedRows"] == 2
    assert found(table) == [(3, "b", 3.0), (4, None, None)]


def test_a_delete_of_everything(table):
    result = table.delete()
    assert result.metrics["numDeletedRows"] == 4
    assert found(table) == []


def test_commit_metadata_is_in_the_history(table):
    table.delete("id = 1", commit_metadata={"run": "nightly"})
    (change,) = table.changes(2)
    assert change.actions[0].extra["run"] == "nightly"
    with pytest.raises(ValidationError, match="operation"):
        table.delete("id = 2", commit_metadata={"operation": "x"})


def test_app_versions_happen_once(table):
    for _ in range(2):
        table.update("id = 1", {"n": "n + 1"}, app_id="job", app_version=7)
    assert (1, "a", 2.0) in found(table)


# --- what is given --------------------------------------------------------------------------


def test_names_of_other_libraries(table):
    table.delete(predicate="id = 1")
    table.update(predicate="id = 2", updates={"n": "n * 2"})
    table.update(predicate="id = 3", new_values={"day": "it's", "n": 9})
    merge = table.merge(
        rows((2, "a", 0.5)), predicate="t.id = s.id", source_alias="s", target_alias="t"
    )
    merge.when_matched_update(updates={"n": "t.n + s.n"}, predicate="s.n > 0").execute()
    assert found(table) == [(2, "a", 4.5), (3, "it's", 9.0), (4, None, None)]


@pytest.mark.parametrize("value", [7, 7.0, Decimal(7), "7", "3 + 4", "CAST('7' AS double)"])
def test_values_are_expressions_or_values(table, value):
    table.update("id = 1", {"n": value})
    assert (1, "a", 7.0) in found(table)


def test_values_of_every_kind(lake):
    schema = pa.schema(
        [("i", pa.int8()), ("b", pa.bool_()), ("y", pa.date32()), ("t", pa.timestamp("us", "UTC")),
         ("u", pa.timestamp("us")), ("m", pa.decimal128(5, 2)), ("x", pa.binary()),
         ("s", pa.string())]
    )  # fmt: skip
    table = lake.create_table("kinds", schema)
    table.append(pa.Table.from_pylist([dict.fromkeys(schema.names)], schema=schema))
    now = datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=UTC)
    values = {"i": -5, "b": True, "y": date(2024, 5, 6), "t": now, "u": now.replace(tzinfo=None),
              "m": Decimal("1.25"), "x": b"\x00\xff", "s": "a'b"}  # fmt: skip
    table.update(new_values=values)
    assert table.scan().to_arrow().to_pylist() == [values]


SOURCE = [{"id": 1, "day": "a", "n": 10.0}, {"id": 9, "day": "c", "n": 90.0}]
SOURCES = {
    "table": lambda t: t,
    "batch": lambda t: t.to_batches()[0],
    "reader": lambda t: t.to_reader(),
    "batches": lambda t: t.to_batches(),
    "generator": lambda t: (batch for batch in t.to_batches()),
    "dicts": lambda t: t.to_pylist(),
    "pandas": lambda t: pd.DataFrame(t.to_pylist()),
    "polars": pl.from_arrow,
    "lazy polars": lambda t: pl.from_arrow(t).lazy(),
    "duckdb": duckdb.from_arrow,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_sources_of_every_kind(table, kind):
    source = SOURCES[kind](pa.Table.from_pylist(SOURCE, schema=SCHEMA))
    merge = table.merge(source, "target.id = source.id")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (
        1,
        1,
    )
    assert found(table)[0] == (1, "a", 10.0)
    assert found(table)[-1] == (9, "c", 90.0)


def test_a_scan_as_the_source(table):
    merge = table.merge(table.scan(where="id = 1"), "target.id = source.id + 1")
    merge.when_matched_update(set={"n": "source.n * 100"}).execute()
    assert (2, "a", 100.0) in found(table)


@pytest.mark.parametrize(
    "run",
    [
        lambda t: t.update("id = 1"),
        lambda t: t.update("id = 1", {}),
        lambda t: t.update("id = 1", {"nothing": "1"}),
        lambda t: t.update("id = 1", {"n": object()}),
        lambda t: t.update("id = 1", {"n": "nothing + 1"}),
        lambda t: t.update("id = 1", {"id": "9223372036854775807 + id"}),
        lambda t: t.update("id = 1", {"id": "'x'"}),
        lambda t: t.update("id = 1", {"n": "1 / (id - 1)"}),
        lambda t: t.update("id = 1", {"n": "1", "N": "2"}),
        lambda t: t.update("n", {"n": "1"}),
        lambda t: t.delete(7),
        lambda t: t.delete("id = 1", predicate="id = 2"),
        lambda t: t.delete("id = rand()"),
        lambda t: t.delete("id IN (SELECT 1)"),
        lambda t: t.merge(1, "target.id = source.id").when_matched_delete().execute(),
        lambda t: t.merge(rows(), 7),
        lambda t: t.merge(rows(), "target.id = source.id").execute(),
        lambda t: t.merge(rows(), "id = 1").when_matched_delete().execute(),
        lambda t: t.merge(rows(), "target.id = source.id").when_matched_update(set={}),
        lambda t: t.merge(rows(), "target.id = source.id")
        .when_matched_delete()
        .when_matched_update_all()
        .execute(),
        lambda t: t.merge(pa.table({"id": [1]}), "target.id = source.id")
        .when_matched_update_all()
        .execute(),
        lambda t: t.merge(rows((1, "a", 1.0), (1, "a", 2.0)), "target.id = source.id")
        .when_matched_update_all()
        .execute(),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_changes_nothing(table, run):
    before = found(table)
    with pytest.raises((ValidationError, SchemaMismatchError, UnsupportedFeatureError)):
        run(table)
    assert found(table) == before
    assert table.version == 1


def test_a_delete_by_several_rows_of_the_source_is_one(table):
    source = rows((1, "a", 1.0), (1, "a", 2.0))
    result = table.merge(source, "target.id = source.id").when_matched_delete().execute()
    assert result.metrics["numTargetRowsDeleted"] == 1
    assert len(found(table)) == 3


def test_texts_and_numbers_compare_as_in_spark(lake):
    schema = pa.schema([("s", pa.string())])
    table = lake.create_table("texts", schema)
    table.append(pa.table({"s": ["5", "05", "7"]}, schema=schema))
    assert table.delete("s = 5").metrics["numDeletedRows"] == 2
    table.append(pa.table({"s": ["x"]}, schema=schema))
    with pytest.raises(ValidationError, match="evaluated"):
        table.delete("s = 5")


def test_conditions_that_the_log_must_not_mistake(lake):
    """Files are skipped by what a condition says, and by no more than that."""
    schema = pa.schema(
        [("t", pa.timestamp("us", "UTC")), ("m", pa.decimal128(10, 2)), ("f", pa.float64())]
    )
    when = datetime(2023, 12, 31, 19, tzinfo=UTC)
    for condition in (
        "t = TIMESTAMP '2024-01-01 00:00:00+05:00' AND abs(f) = 2",
        "t = CAST('2023-12-31 19:00:00Z' AS timestamp) AND abs(f) = 2",
        "m = 1e-1 AND abs(f) = 2",
        "abs(f) = 2 AND t BETWEEN '2023-12-31 18:00:00' AND '2023-12-31 20:00:00'",
        "abs(f) = 2 AND (m = 0.1 OR m IS NULL) AND NOT f = 3",
        "abs(f) = 2 AND m IN (0.1, 5)",
        "abs(f) = 2 AND f < 0",
        "abs(f) = 2 AND 0 > f AND m > 0",
    ):
        table = lake.create_table(f"mistaken.{abs(hash(condition))}", schema)
        table.append(pa.table({"t": [when], "m": [Decimal("0.10")], "f": [-2.0]}, schema=schema))
        assert table.delete(condition).metrics["numDeletedRows"] == 1, condition


def test_files_that_can_not_match_are_not_read(lake):
    table = lake.create_table("skipped", SCHEMA)
    for start in (0, 10, 20, 30):
        table.append(rows(*((start + n, "a", 1.0) for n in range(5))))
    for add in table.snapshot().adds():
        if json.loads(add.stats)["minValues"]["id"] in (0, 20):
            (_folder(table) / add.path).write_bytes(b"not Parquet")
    assert table.delete("id = 11 AND length(day) = 1").metrics["numDeletedRows"] == 1
    assert table.update("id > 31 AND id < 33 AND day || 'x' = 'ax'", {"n": "2"}) == 6
    # By the keys themselves: those of the source lie around the broken files, too.
    merge = table.merge(rows((12, "b", 5.0), (33, "b", 6.0)), "target.id = source.id")
    assert merge.when_matched_update_all().execute().metrics["numTargetRowsUpdated"] == 2


def test_a_merge_on_a_constant(table):
    merge = table.merge(rows((9, "z", 9.0)), "1 = 1")
    result = merge.when_matched_update("target.id = 2", {"n": "source.n"}).execute()
    assert result.metrics["numTargetRowsUpdated"] == 1


# --- schema evolution -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_merge_may_bring_columns(lake, mode):
    table = lake.create_table(
        f"evolving.{mode}", SCHEMA, properties={"delta.columnMapping.mode": mode}
    )
    table.append(rows((1, "a", 1.0), (2, "a", 2.0)))
    source = pa.table({"id": [1, 3], "day": ["b", "c"], "note": ["x", "y"]})
    merge = table.merge(source, "target.id = source.id").with_schema_evolution()
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.scan().to_arrow().schema.names == [*SCHEMA.names, "note"]
    assert found(table) == [(1, "b", 1.0, "x"), (2, "a", 2.0, None), (3, "c", None, "y")]


# --- in a transaction, and beside others ----------------------------------------------------


def test_verbs_of_a_transaction_see_each_other(lake, table):
    with lake.transaction() as tx:
        inside = tx.table(table.name)
        inside.append(rows((5, "a", 5.0)))
        assert inside.update("id = 5", {"n": "n + 1"})["numUpdatedRows"] == 1
        merge = inside.merge(rows((5, "a", 0.5)), "target.id = source.id")
        assert merge.when_matched_update_all().execute()["numTargetRowsUpdated"] == 1
        inside.delete("id < 5 OR id IS NULL")
        assert table.version == 1
    assert found(table) == [(5, "a", 0.5)]
    assert tx.versions[table.name] == 2
    with pytest.raises(ValidationError, match="not open"):
        inside.delete()


def test_a_transaction_that_fails_leaves_nothing(lake, table):
    before = _files(table)
    with pytest.raises(ValidationError), lake.transaction() as tx:  # noqa: PT012
        tx.table(table.name).update("id = 1", {"n": "0"})
        assert _files(table) > before
        tx.table(table.name).update("id = 1", {"n": "nothing"})
    assert (1, "a", 1.0) in found(table)
    assert _files(table) == before


def test_conflicts_are_named_and_retried(lake, table, monkeypatch):
    from deltasql.lake.dml import row_changes

    plain, raced = row_changes.update, []

    def slow(*arguments):
        outcome = plain(*arguments)
        if not raced:
            raced.append(lake.table(table.name).delete("id = 2"))
        return outcome

    monkeypatch.setattr(row_changes, "update", slow)
    with pytest.raises(CommitError):
        table.update("day = 'a'", {"n": "n + 1"})
    assert (1, "a", 1.0) in found(table)
    raced.clear()
    table.append(rows((2, "a", 2.0)))
    table.update("day = 'a'", {"n": "n + 1"}, retries=1)
    assert found(table)[0] == (1, "a", 2.0)


def test_files_of_a_failed_commit_are_deleted(table, monkeypatch):
    def refuse(self, *arguments):
        raise ConcurrentAppendError("no", version=1, path="x")

    before = _files(table)
    monkeypatch.setattr(table._lake.commits, "commit", refuse)
    with pytest.raises(CommitError):
        table.update("id = 1", {"n": "0"})
    assert _files(table) == before


def _folder(table) -> Path:
    return Path(unquote(urlsplit(table.location).path))


def _files(table) -> set[Path]:
    return set(_folder(table).rglob("*.parquet"))


@pytest.mark.parametrize("many", [False, True])
def test_updates_of_rows_in_many_files_and_row_groups(lake, many, monkeypatch):
    """Values that were read to find rows are put beside those that are read afterwards."""
    if many:
        monkeypatch.setattr("deltasql.lake.dml.conditions._MOST_VALUES", 100)
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"}),
            ("f", pa.float64()),
            ("s", pa.string()),
        ]
    )
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    table = lake.create_table(f"many_{many}", schema, properties=properties)
    for start in range(0, 3000, 1000):
        ids = list(range(start, start + 1000))
        numbers = [None if number % 7 == 0 else number / 3 for number in ids]
        rows = pa.table({"id": ids, "f": numbers, "s": list(map(str, ids))}, schema=schema)
        writer = deltasql.WriterProperties(row_group_size=300)
        table.append(rows, writer=writer)
    table.delete("id % 10 = 3")
    expected = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    for where, holds in (
        ("id % 3 = 0", lambda row: row["id"] % 3 == 0),
        ("id % 2 = 0 OR f IS NULL", lambda row: row["id"] % 2 == 0 or row["f"] is None),
        ("id % 2 = 0 AND f IS NULL", lambda row: row["id"] % 2 == 0 and row["f"] is None),
        ("id + f < 100", lambda row: row["f"] is not None and row["id"] + row["f"] < 100),
    ):
        changed = [row for row in expected.values() if holds(row)]
        done = table.update(where, {"s": "concat(s, '!')", "f": "f + id"})
        assert done.metrics["numUpdatedRows"] == len(changed)
        for row in changed:
            row["s"] += "!"
            row["f"] = None if row["f"] is None else row["f"] + row["id"]
        found = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
        assert found == expected


def test_updates_of_rows_that_are_known_before_they_are_read(lake):
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int16()), "p": pa.array([1, 1, 2, 2])})
    table = lake.create_table("known", data=rows, partition_by=["p"])
    done = table.update("id % 2 = 0 AND p + id > 3", {"id": "id * 10"})
    assert done.metrics["numUpdatedRows"] == 1
    found = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    assert found == [(1, 1), (2, 1), (3, 2), (40, 2)]
