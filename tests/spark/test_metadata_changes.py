"""What new metadata brings along, as stock Delta finds it in the mirror."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deltasql.errors import ValidationError
from deltasql.spec.schema import Primitive, StructField
from tests.lake.metadata import ON, ROW_IDS, SINCE, changed, with_columns
from tests.spark.test_dml_numbers import numbered


def test_stock_delta_tells_the_times_of_versions_before_and_after(spark, db, tmp_path_factory):
    root = str(tmp_path_factory.mktemp("adopted") / "stock")
    for number in range(2):
        spark.range(number, number + 1).write.format("delta").mode("append").save(root)
    table = db.lake.adopt(root, name="timed", fence=False)
    assert table.commit([changed(table, **{ON: "true"})]) == 2
    db.write(spark.range(5, 6), "timed")
    assert table.snapshot().properties[SINCE] == "2"
    db.lake.mirror.run(once=True)

    told = {
        row.version: row.timestamp
        for row in spark.sql(f"DESCRIBE HISTORY delta.`{root}`").collect()
    }
    ours = {entry.version: entry.timestamp for entry in table.history()}
    for version in (2, 3):
        found = told[version].astimezone(UTC) if told[version].tzinfo else told[version]
        assert found.replace(tzinfo=UTC) == ours[version]
    assert sorted(told) == [0, 1, 2, 3]
    at = spark.read.format("delta").option("timestampAsOf", _text(ours[2])).load(root)
    assert sorted(row.id for row in at.collect()) == [0, 1]
    newest = spark.read.format("delta").load(root)
    assert sorted(row.id for row in newest.collect()) == [0, 1, 5]


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def test_stock_delta_finds_ids_in_rows_from_before(spark, db, name):
    db.write(spark.range(4).repartition(2), name)
    table = db.lake.table(name)
    assert table.commit([changed(table, **ROW_IDS)]) == 1
    db.write(spark.range(10, 12).repartition(1), name)
    db.table(name).update("id = 1", {"id": "100"})
    db.lake.mirror.run(once=True)
    found = numbered(spark.read.format("delta").load(table.location))
    assert found == numbered(db.read(name))
    assert sorted(number for number, _ in found.values()) == list(range(6))
    assert {key: version for key, (_, version) in found.items()} == {
        **dict.fromkeys((0, 2, 3), 1),
        **dict.fromkeys((10, 11), 2),
        100: 3,
    }


def test_a_whole_overwrite_may_change_what_a_commit_may_not(spark, db, name):
    db.write(spark.sql("SELECT id, id % 2 AS p FROM range(4)"), name, partition_by="p")
    table = db.lake.table(name)
    with pytest.raises(ValidationError, match="does not fit the files"):
        table.commit([replace(table.snapshot().metadata, partition_columns=())])
    with pytest.raises(ValidationError, match="does not fit the files"):
        table.commit([with_columns(table, StructField("id", Primitive("string")))])
    db.write(spark.sql("SELECT 'x' AS id"), name, mode="overwrite", overwrite_schema=True)
    assert [row.id for row in db.read(name).collect()] == ["x"]
    with pytest.raises(ValidationError, match=r"delta\.checkpointInterval"):
        db.write(spark.range(1), f"{name}.x", properties={"delta.checkpointInterval": "often"})
