"""Alter: columns, properties, constraints and features, and what stock readers make of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.commit.loop import CommitLoop
from deltasql.errors import (
    CommitError,
    MetadataChangedError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.lake.table import Table
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import SCHEMA, rows


@pytest.fixture
def table(lake: deltasql.Lake) -> Table:
    made = lake.create_table("a.t", SCHEMA)
    made.append(rows(1, 2))
    return made


def names(table: Table) -> list[str]:
    return table.snapshot().schema.names


def last(table: Table) -> str | None:
    return table.history(1)[0].operation


def test_columns_are_added(lake: deltasql.Lake, table: Table):
    assert table.add_column("price", "decimal(10,2)", comment="in euro", after="id") == 2
    assert last(table) == "ADD COLUMNS"
    table.add_column("n", pa.int32(), first=True)
    table.add_columns(pa.schema([("x", pa.string()), ("y", pa.float64())]))
    table.add_columns({"place": pa.struct([("city", pa.string())])})
    table.add_column("place.zip", "string")
    assert names(table) == ["n", "id", "price", "day", "x", "y", "place"]
    assert table.snapshot().state.schema.field("price").metadata["comment"] == "in euro"  # type: ignore[union-attr]
    table.append(pa.table({"id": [3], "place": [{"city": "Bonn", "zip": "53111"}]}))
    found = {row["id"]: row["place"] for row in seen_by_all(lake, table)}
    assert found == {1: None, 2: None, 3: {"city": "Bonn", "zip": "53111"}}


def test_columns_that_can_not_be_added(table: Table):
    for wrong in (
        lambda: table.add_column("ID", "long"),
        lambda: table.add_column("x", "nothing"),
        lambda: table.add_column("x", "long", after="y"),
        lambda: table.add_column("x", "long", nullable=False),
        lambda: table.add_column("day.x", "long"),
        lambda: table.add_column("a,b", "long"),
    ):
        with pytest.raises(ValidationError):
            wrong()
    assert table.version == 1


def test_rename_and_drop_take_column_mapping(lake: deltasql.Lake, table: Table):
    for wrong in (lambda: table.rename_column("day", "d"), lambda: table.drop_column("day")):
        with pytest.raises(ValidationError, match="column mapping") as caught:
            wrong()
        assert "enable_column_mapping=True" in caught.value.remedy
    table.rename_column("day", "d", enable_column_mapping=True)
    assert table.snapshot().properties["delta.columnMapping.mode"] == "name"
    assert [entry.operation for entry in table.history(2)] == ["RENAME COLUMN", "SET TBLPROPERTIES"]
    assert seen_by_all(lake, table) == [{"id": 1, "d": "a"}, {"id": 2, "d": "a"}]
    table.append(pa.table({"id": [3], "d": ["b"]}))
    table.add_column("day", "long")
    assert {row["day"] for row in seen_by_all(lake, table)} == {None}, "no old values come back"
    table.drop_column("d")
    assert [row["id"] for row in seen_by_all(lake, table)] == [1, 2, 3]
    assert names(table) == ["id", "day"]
    table.restore(version=1)
    assert {row["day"] for row in seen_by_all(lake, table)} == {"a"}, "from before the mapping"


def test_columns_in_use_stay(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA, partition_by=["day"])
    table.append(rows(1))
    table.add_constraint("positive", "id > 0")
    table.set_properties({"delta.columnMapping.mode": "name"})
    with pytest.raises(ValidationError, match="can't be dropped"):
        table.drop_column("day")
    with pytest.raises(ValidationError, match="constraint positive"):
        table.rename_column("id", "key")
    table.rename_column("day", "date")
    assert table.snapshot().metadata.partition_columns == ("date",)
    assert seen_by_all(lake, table) == [{"id": 1, "date": "a"}]


def test_order_comments_and_nullability(lake: deltasql.Lake):
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("a", pa.string()), ("b", pa.string())]
    )
    table = lake.create_table("a.t", schema)
    table.append(pa.table({"id": [1], "a": ["x"], "b": ["y"]}, schema=schema))
    table.reorder_columns(["b"])
    assert names(table) == ["b", "id", "a"]
    table.set_comment("what it is", "a")
    table.set_comment("a table")
    assert table.snapshot().metadata.description == "a table"
    assert table.snapshot().state.schema.field("a").metadata["comment"] == "what it is"  # type: ignore[union-attr]
    table.set_comment(None, "a")
    assert "comment" not in table.snapshot().state.schema.field("a").metadata  # type: ignore[union-attr]
    with pytest.raises(ValidationError, match="NOT NULL"):
        table.set_nullable("a", nullable=False)
    table.set_nullable("id")
    table.append(pa.table({"a": ["z"]}))
    assert {row["id"] for row in seen_by_all(lake, table)} == {1, None}


def test_types_are_widened(lake: deltasql.Lake):
    table = lake.create_table("a.t", pa.schema([("n", pa.int32()), ("many", pa.list_(pa.int32()))]))
    table.append(
        pa.table({"n": pa.array([1], pa.int32()), "many": pa.array([[1]], pa.list_(pa.int32()))})
    )
    with pytest.raises(ValidationError, match="type widening"):
        table.widen_type("n", "long")
    with pytest.raises(ValidationError, match="does not widen"):
        table.widen_type("n", "short", enable_type_widening=True)
    table.widen_type("n", "bigint", enable_type_widening=True)
    table.widen_type("many.element", pa.int64())
    table.append(pa.table({"n": [2**40], "many": [[2**40]]}))
    assert table.snapshot().schema.field("n").type == pa.int64()
    rows_now = table.scan().to_arrow().to_pylist()
    assert sorted(row["n"] for row in rows_now) == [1, 2**40]
    assert sorted(row["many"] for row in rows_now) == [[1], [2**40]]


def test_properties(table: Table):
    table.set_properties({"color": "red", "DELTA.APPENDONLY": "true"})
    assert table.snapshot().properties["delta.appendOnly"] == "true"
    before = table.version
    assert table.set_properties({"color": "red"}) == before, "nothing changes"
    table.unset_properties(["delta.appendOnly"])
    table.unset_properties(["nothing"], if_exists=True)
    assert "delta.appendOnly" not in table.snapshot().properties
    for wrong in (
        lambda: table.set_properties({"delta.checkpointInterval": "often"}),
        lambda: table.set_properties({"delta.colour": "red"}),
        lambda: table.set_properties({"delta.constraints.c": "id > 0"}),
        lambda: table.set_properties({"delta.enableInCommitTimestamps": "false"}),
        lambda: table.set_properties({"n": 1}),  # type: ignore[dict-item]
        lambda: table.unset_properties(["nothing"]),
    ):
        with pytest.raises(ValidationError):
            wrong()


def test_constraints_check_the_rows_that_are_there(lake: deltasql.Lake, table: Table):
    with pytest.raises(SchemaMismatchError, match="1 rows break"):
        table.add_constraint("large", "id > 1")
    assert table.version == 1
    table.add_constraint("Positive", "id > 0")
    assert "checkConstraints" in (table.snapshot().protocol.writer_features or ())
    with pytest.raises(SchemaMismatchError, match="positive"):
        table.append(rows(-1))
    with pytest.raises(ValidationError, match="already"):
        table.add_constraint("positive", "id > 3")
    with pytest.raises(UnsupportedFeatureError, match="no_such"):
        table.add_constraint("odd", "no_such(id) = 1")
    table.drop_constraint("POSITIVE")
    table.append(rows(-1))
    with pytest.raises(ValidationError, match="no constraint"):
        table.drop_constraint("positive")
    assert table.drop_constraint("positive", if_exists=True) == table.version
    assert len(seen_by_all(lake, table)) == 3


def test_any_condition_can_be_a_constraint(lake: deltasql.Lake, table: Table):
    with pytest.raises(SchemaMismatchError, match="1 rows break"):
        table.add_constraint("odd", "ID % 2 = 1")
    assert table.version == 1
    table.add_constraint("near", "abs(id) < 100")
    with pytest.raises(SchemaMismatchError, match="near"):
        table.append(rows(-100))
    table.append(rows(99))
    assert len(seen_by_all(lake, table)) == 3


def test_rows_that_come_meanwhile_are_not_missed(
    lake: deltasql.Lake, table: Table, monkeypatch: pytest.MonkeyPatch
):
    from deltasql.maintenance.altering import rules

    real = rules.must_hold

    def slow(*args: object, **options: object) -> None:
        real(*args, **options)  # type: ignore[arg-type]
        lake.table("a.t").append(rows(-5))

    monkeypatch.setattr(rules, "must_hold", slow)
    with pytest.raises(CommitError):
        table.add_constraint("positive", "id > 0")
    assert "delta.constraints.positive" not in table.snapshot().properties


def test_two_at_once_are_told_of_one_another(
    lake: deltasql.Lake, table: Table, monkeypatch: pytest.MonkeyPatch
):
    """As a conflict, which may be tried again, and not as metadata that lacks a column."""
    real, todo = CommitLoop.commit, [lambda: lake.table("a.t").add_column("price", "int")]

    def commit(*args: Any) -> Any:
        if todo:
            todo.pop()()
        return real(*args)

    monkeypatch.setattr(CommitLoop, "commit", commit)
    with pytest.raises(MetadataChangedError):
        table.add_constraint("positive", "id > 0")
    table.add_constraint("positive", "id > 0")
    assert names(table) == ["id", "day", "price"]


def test_features_are_enabled(lake: deltasql.Lake, table: Table):
    table.enable_feature("deletionvectors")
    assert "deletionVectors" in (table.snapshot().protocol.writer_features or ())
    assert table.enable_feature("deletionVectors") == table.version
    assert last(table) == "UPGRADE PROTOCOL"
    table.set_properties({"delta.feature.domainMetadata": "supported"})
    assert "domainMetadata" in (table.snapshot().protocol.writer_features or ())
    table.set_properties({"delta.enableRowTracking": "true"})
    assert all(add.base_row_id is not None for add in table.snapshot().adds())
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV2"):
        table.enable_feature("icebergCompatV2")
    assert len(seen_by_all(lake, table)) == 2


def test_an_append_goes_on_after_an_alter(lake: deltasql.Lake, table: Table):
    other = lake.table("a.t")
    other.append(rows(3))
    table.add_column("more", "long")
    other.append(rows(4))
    assert len(seen_by_all(lake, table)) == 4
