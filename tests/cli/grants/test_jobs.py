"""Each role of PostgreSQL can do its job, and nothing else."""

from __future__ import annotations

import shutil

import psycopg
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import DatabaseError
from deltasql.spark.cut import Cut
from tests.cli.grants.statements import ROWS


def test_reader_reads(connect_as):
    lake = connect_as("reader")
    table = lake.table("t")
    assert table.scan(where="id = 2").to_arrow().num_rows == 1
    assert table.snapshot(version=0).files().num_rows == 0
    assert len(table.history()) == 2
    assert len(lake.audit("2020-01-01", "2999-01-01")) == 2
    assert table.changes(0)
    assert table.mirror.status().lag_versions == 0
    assert table.mirror.validate().ok


def test_a_reader_has_a_cut_though_it_may_hold_nothing(connect_as):
    lake = connect_as("reader")
    cut, table = Cut(lake), lake.table("t")
    with cut.taken():
        assert table.snapshot(version=cut.version_of(table)).scan().to_arrow().num_rows
        assert lake.pins() == []


def test_reader_cannot_commit(connect_as, tmp_path):
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    table = connect_as("reader").table("t")
    for attempt in (
        lambda: table.append(ROWS),
        lambda: table.overwrite(ROWS),
        lambda: connect_as("reader").create_table("x", ROWS.schema),
        lambda: connect_as("reader").drop_table("t"),
        table.mirror.pause,
    ):
        with pytest.raises(DatabaseError, match="permission denied"):
            attempt()
    with connect_as("reader").transaction() as tx, pytest.raises(DatabaseError, match="db grants"):
        tx.table("t").append(ROWS)
    assert connect_as("owner").table("t").version == 1
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("strict", [False, True])
def test_writer_commits_and_mirrors(connect_as):
    lake = connect_as("writer")
    table = lake.create_table("w", ROWS.schema, partition_by=["day"])
    table.append(ROWS)
    table.append(ROWS, app_id="job", app_version=1)
    table.overwrite(ROWS.slice(0, 1), where="day = 'a'")
    table.append(pa.table({"new": [1]}), schema_mode="merge")
    table.commit([{"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}])
    with lake.transaction() as tx:
        tx.table("w").append(ROWS)
        tx.table("t").append(ROWS)
    assert all(item.lag_versions == 0 for item in lake.mirror.status())
    lake.rename_table("w", "v")
    lake.drop_table("v")
    # Many rows take another way into the database.
    adds = [
        {"add": {"path": f"f{n}", "size": 1, "partitionValues": {}, "modificationTime": 1,
                 "dataChange": True}}
        for n in range(3000)
    ]  # fmt: skip
    lake.table("t").commit(adds)
    lake.mirror.run(once=True)


@pytest.mark.parametrize("strict", [True])
def test_a_strict_writer_clones_keeps_house_and_releases(connect_as, tmp_path):
    lake = connect_as("writer")
    table = lake.table("t")
    copy = table.clone("c")
    assert copy.scan().to_arrow().num_rows == 2
    assert copy.sources
    copy.append(ROWS)
    table.delete("id = 1")
    table.append(ROWS)
    table.optimize()
    table.vacuum()
    table.restore(version=1)
    table.mirror.pause()
    table.mirror.resume()
    assert copy.release() > 0
    assert lake.check("t").ok
    with pytest.raises(deltasql.LocationTakenError):
        lake.create_table("n", ROWS.schema, location=str(tmp_path / "lake" / "t" / "n"))


def test_writer_cannot_purge_and_learns_it_first(connect_as, tmp_path):
    lake = connect_as("writer")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DatabaseError, match="permission denied"):
        lake.drop_table("t", purge=True)
    assert lake.table("t").scan().to_arrow().num_rows == 2, "it is not even dropped"
    lake.drop_table("t")
    with pytest.raises(DatabaseError, match="permission denied"):
        lake.purge("t")
    assert sorted(tmp_path.rglob("*")) == before
    (found,) = lake.dropped()
    assert not found.is_purging
    owner = connect_as("owner")
    assert owner.purge("t").files == 1
    assert not list(tmp_path.rglob("*.parquet"))


def test_writer_cannot_adopt_and_learns_it_first(connect_as, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "lake" / "t", copy)
    before = sorted(tmp_path.rglob("*"))
    lake = connect_as("writer")
    with pytest.raises(DatabaseError, match="can't adopt") as caught:
        lake.adopt(str(copy), "u")
    assert "owner" in caught.value.remedy
    assert [item.status for item in lake.recover(str(copy)).tables] == ["failed"]
    assert sorted(tmp_path.rglob("*")) == before
    assert connect_as("owner").adopt(str(copy), "u").version == 1


def test_writer_takes_places(connect_as, postgres_url, tmp_path):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DELETE FROM dl_places")  # as after the migration
    lake = connect_as("writer")
    lake.create_table("elsewhere", ROWS.schema, location=str(tmp_path / "elsewhere"))
    with pytest.raises(deltasql.LocationTakenError):
        lake.create_table("within", ROWS.schema, location=str(tmp_path / "elsewhere" / "in"))


def test_mirror_mirrors(connect_as, postgres_url, tmp_path):
    owner = deltasql.connect(
        postgres_url, location=str(tmp_path / "lake"), settings={"mirror.mode": "off"}
    )
    for _ in range(12):
        owner.table("t").append(ROWS)
    owner.close()
    lake = connect_as("mirror")
    assert lake.mirror.run(once=True) >= 12
    table = lake.table("t")
    assert table.mirror.status().lag_versions == 0
    next((tmp_path / "lake" / "t" / "_delta_log").glob("*05.json")).unlink()
    assert table.mirror.repair().restored == [5]
    assert table.mirror.validate().ok
    table.mirror.cleanup(dry_run=False)
    table.mirror.pause()
    table.mirror.resume()


def test_mirror_cannot_commit(connect_as):
    table = connect_as("mirror").table("t")
    with pytest.raises(DatabaseError, match="permission denied"):
        table.append(ROWS)
    assert table.version == 1
