"""Procedures: the lake's verbs in SQL, and transactions from begin to commit."""

from __future__ import annotations

import uuid
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException

import deltasql
import deltasql.spark
from deltasql.errors import ValidationError
from deltasql.spark.catalog.procedures.verbs import VERBS
from tests.spark.sql.conftest import CATALOG


@pytest.fixture
def name(db) -> str:
    made = f"calls.t{uuid.uuid4().hex[:8]}"
    db.spark.sql(f"CREATE TABLE {CATALOG}.{made} (id BIGINT)")
    db.spark.sql(f"INSERT INTO {CATALOG}.{made} VALUES (1)")
    return made


def _call(spark, text: str):
    return spark.sql(f"CALL {CATALOG}.system.{text}").collect()


def _ids(spark, name: str) -> list[int]:
    return sorted(row.id for row in spark.table(f"{CATALOG}.{name}").collect())


def test_they_are_shown(spark, db):
    shown = {
        row.procedure_name for row in spark.sql(f"SHOW PROCEDURES IN {CATALOG}.system").collect()
    }
    assert shown == {"begin", "commit", "rollback", *(item.name for item in VERBS)}
    with pytest.raises(PySparkException, match="there is no procedure"):
        _call(spark, "nothing()")


def test_verbs_of_a_table(spark, db, lake, name):
    spark.sql(f"INSERT INTO {CATALOG}.{name} VALUES (2)")
    (told, *_) = _call(spark, f"history('{name}', limit => 2)")
    assert (told.version, told.operation, told.is_blind_append) == (2, "WRITE", True)
    assert told.timestamp == lake.table(name).history(limit=1)[0].timestamp.replace(tzinfo=None)
    assert len(_call(spark, f"history(table => '{CATALOG}.{name}')")) == 3
    actions = _call(spark, f"changes('{name}', 2)")
    assert {row.version for row in actions} == {2}
    assert sum('"add"' in row.action for row in actions) == 1
    (told,) = _call(spark, f"restore('{name}', 1)")
    assert (told.version, told.restored_version) == (3, 1)
    assert _ids(spark, name) == [1]
    (told,) = _call(spark, f"vacuum('{name}')")
    assert (told.table, told.dry_run, told.dead) == (name, True, 0)
    for verb in ("validate", "check", "repair"):
        (told,) = _call(spark, f"{verb}('{name}')")
        assert (told.table, told.ok) == (name, True)
    (told,) = _call(spark, f"mirror_status('{name}')")
    assert (told.version, told.lag_versions) == (3, 0)
    assert any(row.kind == "spark" and row.is_alive for row in _call(spark, "sessions()"))
    with pytest.raises(IllegalArgumentException, match=r"there is no table no\.where\n") as caught:
        _call(spark, "history('no.where')")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    spark.sql(f"DELETE FROM {CATALOG}.{name}")
    with pytest.raises(IllegalArgumentException, match="enforce_retention_duration"):
        _call(spark, f"vacuum('{name}', retention => '0 hours')")
    (told,) = _call(spark, f"vacuum('{name}', '0 hours', enforce_retention_duration => false)")
    assert (told.dry_run, told.dead) == (True, 2)


@pytest.mark.parametrize("form", ["'{}'", "TIMESTAMP'{}'"])
def test_a_time_is_that_of_the_session(spark, db, lake, name, form):
    """As RESTORE … TO TIMESTAMP AS OF has it: a text without a zone is in the session's."""
    for number in (2, 3):
        spark.sql(f"INSERT INTO {CATALOG}.{name} VALUES ({number})")
    then = lake.table(name).history()[1].timestamp
    assert lake.table(name).version == 3
    for zone in ("America/New_York", "Asia/Tokyo"):
        local = then.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat(" ")
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            (told,) = _call(spark, f"restore('{name}', timestamp => {form.format(local)})")
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
        assert told.restored_version == 2
        assert _ids(spark, name) == [1, 2]
    with pytest.raises(PySparkException, match=r"CAST_INVALID_INPUT|is not a point in time"):
        _call(spark, f"restore('{name}', timestamp => 'yesterday noon')")


def test_small_files_are_written_together(spark, db, lake):
    name = f"calls.o{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE TABLE {CATALOG}.{name} (id BIGINT, n BIGINT, p INT) PARTITIONED BY (p)")
    for number in range(3):
        spark.sql(f"INSERT INTO {CATALOG}.{name} SELECT {number}, 7, id FROM range(0, 2, 1, 1)")
    (told,) = _call(spark, f"optimize(table => '{name}', where => 'p = 1')")
    assert (told.table, told.version, told.commits, told.skipped) == (name, 4, 1, 0)
    assert (told.files_removed, told.files_added) == (3, 1)
    assert told.bytes_added == lake.table(name).snapshot().files("p = 1")["size"][0].as_py()
    (told,) = _call(spark, f"optimize('{name}', zorder_by => array('id', 'n'))")
    # The one file of the other partition is in its order, too.
    assert (told.files_removed, told.files_added) == (4, 2)
    assert lake.table(name).history(limit=1)[0].operation == "OPTIMIZE"
    assert _ids(spark, name) == [0, 0, 1, 1, 2, 2]
    (told,) = _call(spark, f"optimize('{name}', target_size => '1 MB', purge => true)")
    assert (told.commits, told.files_removed) == (0, 0)
    with pytest.raises(IllegalArgumentException, match="don't partition the table"):
        _call(spark, f"optimize('{name}', where => 'id = 1')")


def test_tables_come_and_go(spark, db, lake, tmp_path):
    path = str(tmp_path / "stock")
    spark.range(0, 3, 1, 1).write.format("delta").save(path)
    name = f"calls.a{uuid.uuid4().hex[:8]}"
    (told,) = _call(spark, f"adopt('{path}', '{name}', dry_run => true)")
    assert (told.version, told.read_only) == (0, None)
    (told,) = _call(spark, f"adopt('{path}', '{CATALOG}.{name}')")
    assert (told.version, told.versions) == (1, 2)
    assert _ids(spark, name) == [0, 1, 2]
    (told,) = _call(spark, f"release('{name}')")
    assert told.version == lake.table(name).version
    spark.sql(f"DROP TABLE {CATALOG}.{name}")
    (told,) = [row for row in _call(spark, "dropped()") if row.table == name]
    assert told.location.endswith("stock")


def test_names_are_spelt_as_the_session_may_spell_them(spark, db, lake, name):
    """As in every statement: in any case, unless the session says that it counts."""
    loud = name.upper()
    (told,) = spark.sql(
        f"CALL {CATALOG}.SYSTEM.Mirror_Status(TABLE => '{CATALOG}.{loud}')"
    ).collect()
    assert told.table == name
    (told,) = _call(spark, f"restore('{loud}', Version => 0)")
    assert (told.table, _ids(spark, name)) == (name, [])
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(IllegalArgumentException, match="there is no table"):
            _call(spark, f"restore('{loud}', 0)")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    # Of two that differ in nothing else, the exact name counts.
    spark.sql(f"DROP TABLE {CATALOG}.{loud}")
    other = lake.create_table(name.replace("calls", "CALLS"), "id BIGINT").name
    for wanted in (name, other):
        lake.create_table(f"{wanted}_both", "id BIGINT")
        (told,) = _call(spark, f"mirror_status('{wanted}_both')")
        assert told.table == f"{wanted}_both"
    with pytest.raises(IllegalArgumentException, match="there is no table"):
        _call(spark, f"mirror_status('{loud}_BOTH')")
    (told,) = _call(spark, f"purge('{loud}')")
    assert told.table == name


def test_a_dropped_table_is_purged_by_the_name_it_had(spark, db, lake):
    """A namespace may be called as the catalog is."""
    for name in (f"{CATALOG}.purged", "purged"):
        spark.sql(f"CREATE TABLE {CATALOG}.{name} AS SELECT 1 AS id")
        spark.sql(f"DROP TABLE {CATALOG}.{name}")
    (told,) = _call(spark, f"purge('{CATALOG}.purged')")
    assert told.table == f"{CATALOG}.purged"
    assert [item.name for item in lake.dropped() if "purged" in item.name] == ["purged"]
    (told,) = _call(spark, f"purge('{CATALOG}.purged')")
    assert told.table == "purged"


def test_a_transaction_in_sql_alone(spark, db, lake, name):
    other = f"{name}_other"
    spark.sql(
        f"CREATE TABLE {CATALOG}.{other} (id BIGINT) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    (begun,) = _call(spark, "begin()")
    spark.sql(f"INSERT INTO {CATALOG}.{name} VALUES (2)")
    spark.sql(f"INSERT INTO {CATALOG}.{other} SELECT id FROM {CATALOG}.{name}")
    spark.sql(f"UPDATE {CATALOG}.{other} SET id = 7 WHERE id = 2")
    assert (_ids(spark, name), _ids(spark, other)) == ([1, 2], [1, 7])
    # A session of its own is not in it.
    session = spark.newSession()
    session.conf.set(f"spark.sql.catalog.{CATALOG}", "io.deltasql.spark.LakeCatalog")
    assert _ids(session, name) == [1]
    for text in ("begin()", f"vacuum('{name}')", f"restore('{name}', 0)"):
        with pytest.raises(IllegalArgumentException, match=r"(inside another|part of a) "):
            _call(spark, text)
    with pytest.raises(ValidationError, match="inside another one"), db.transaction():
        pass
    committed = {row.table: row.version for row in _call(spark, "commit()")}
    assert committed == {name: 2, other: 1}
    assert (_ids(spark, name), _ids(session, other)) == ([1, 2], [1, 7])
    assert lake.table(name).history(limit=1)[0].transaction_id == begun.transaction_id
    feed = spark.sql(f"SELECT id, _change_type FROM table_changes('{CATALOG}.{other}', 1)")
    assert sorted(tuple(row) for row in feed.collect()) == [
        (1, "insert"), (2, "insert"), (2, "update_preimage"), (7, "update_postimage"),
    ]  # fmt: skip
    with pytest.raises(IllegalArgumentException, match="no transaction is open"):
        _call(spark, "commit()")


def test_another_lake_is_not_in_it(spark, db, lake, name, tmp_path):
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with deltasql.connect(url, location=str(tmp_path)) as other:
        deltasql.spark.attach(spark, other, catalog="second")
        spark.sql("CREATE TABLE second.s.t (id BIGINT)")
        _call(spark, "begin()")
        spark.sql(f"INSERT INTO {CATALOG}.{name} SELECT count(*) FROM second.s.t")
        with pytest.raises(IllegalArgumentException, match="can't write to two lakes"):
            spark.sql("INSERT INTO second.s.t VALUES (1)")
        with pytest.raises(IllegalArgumentException, match="is not known here"):
            spark.sql("CALL second.system.commit()")
        assert {row.table: row.version for row in _call(spark, "commit()")} == {name: 2}
        assert other.table("s.t").version == 0
    assert _ids(spark, name) == [0, 1]


def test_rolled_back_and_lost(spark, db, lake, name):
    _call(spark, "begin()")
    spark.sql(f"DELETE FROM {CATALOG}.{name}")
    assert _ids(spark, name) == []
    _call(spark, "rollback()")
    assert (_ids(spark, name), lake.table(name).version) == ([1], 1)
    _call(spark, "begin()")
    spark.sql(f"UPDATE {CATALOG}.{name} SET id = id + 1")
    lake.table(name).overwrite(pa.table({"id": [5]}))
    with pytest.raises(Py4JJavaError, match=r"DELTA_CONCURRENT_(APPEND|DELETE_READ)"):
        _call(spark, "commit()")
    # It is over, one way or the other.
    spark.sql(f"INSERT INTO {CATALOG}.{name} VALUES (6)")
    assert _ids(spark, name) == [5, 6]
    with db.transaction(), pytest.raises(IllegalArgumentException, match="not begun in SQL"):
        _call(spark, "commit()")


def test_a_stream_that_writes_is_refused(spark, db, lake, name, tmp_path):
    """It would commit by itself, from a session of its own."""
    target = f"{name}_target"
    spark.sql(f"CREATE TABLE {CATALOG}.{target} (id BIGINT)")
    rows = spark.readStream.table(f"{CATALOG}.{name}").writeStream.format("delta")
    query = rows.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    _call(spark, "begin()")
    try:
        with pytest.raises(IllegalArgumentException, match="a stream can't be part of"):
            query.toTable(f"{CATALOG}.{target}").awaitTermination()
    finally:
        _call(spark, "rollback()")
    assert lake.table(target).version == 0
    query.toTable(f"{CATALOG}.{target}").awaitTermination()
    assert _ids(spark, target) == [1]
