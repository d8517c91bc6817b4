"""Rows that somebody changed by hand: told from the truth, never made the truth, made anew."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from deltalake import DeltaTable

import deltasql
from deltasql.errors import DamagedLogError
from tests.faults.waiting import until
from tests.integrity.conftest import SCHEMA, damage, ids, make, mirrored, rows

ENDED = "WHERE removed_version = 5 AND version = 1"
ONE = "SELECT min(path) FROM dl_active_files"
COLUMNS = """table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider, extra"""
# What is done to a sound table, and what the check says it is about.
DAMAGES = {
    "live row gone": (f"DELETE FROM dl_active_files WHERE path = ({ONE})", "live file"),
    "live row too many": (
        f"INSERT INTO dl_active_files ({COLUMNS}) SELECT {COLUMNS} FROM dl_dead_files {ENDED}",
        "live file",
    ),
    "size": (f"UPDATE dl_active_files SET size_bytes = 1 WHERE path = ({ONE})", "live file"),
    "stats": ("UPDATE dl_active_files SET stats = '{}' WHERE version = 9", "live file"),
    "keys": ("UPDATE dl_active_files SET min_keys = NULL WHERE version = 9", "live file"),
    "partition values": (
        "UPDATE dl_active_files SET partition_values = '{\"day\":\"d1\"}' WHERE version = 9",
        "live file",
    ),
    "version": ("UPDATE dl_active_files SET version = 8 WHERE version = 9", "live file"),
    "dead row gone": (
        "DELETE FROM dl_dead_files WHERE removed_version = 5 AND version = 1", "dead file"
    ),
    "dead too early": (
        "UPDATE dl_dead_files SET removed_version = 4 WHERE removed_version = 5 AND version = 1",
        "dead file",
    ),
    "remove changed": (
        "UPDATE dl_dead_files SET deletion_timestamp = 1 WHERE removed_version = 5", "dead file"
    ),
    "txn gone": ("DELETE FROM dl_txn_actions WHERE version = 4", "txn"),
    "txn changed": ("UPDATE dl_txn_actions SET txn_version = 99 WHERE version = 4", "txn"),
    "domain gone": ("DELETE FROM dl_domain_metadata", "domain"),
    "domain changed": ("UPDATE dl_domain_metadata SET configuration = '{ }'", "domain"),
    "change file gone": ("DELETE FROM dl_cdc_files WHERE version = 8", "change file"),
    "metadata changed": ("UPDATE dl_metadata_updates SET action = '{}'", "metadata"),
    "protocol changed": ("UPDATE dl_protocol_updates SET min_writer_version = 2", "protocol"),
    "partition gone": (
        "DELETE FROM dl_partitions WHERE partition_values = '{\"day\":\"d2\"}'", "partition"
    ),
    "partition not indexed": (
        "DELETE FROM dl_partition_values WHERE value = 'd2'", "partition"
    ),
    "head's time": ("UPDATE dl_table_heads SET last_ict = 1", "head"),
    "head's version": ("UPDATE dl_table_heads SET current_version = 8", "head"),
    "head's protocol": ("UPDATE dl_table_heads SET protocol_version = 7", "head"),
    "properties": ("UPDATE dl_tables SET properties = '{}'", "table"),
    "protocol versions": ("UPDATE dl_tables SET protocol_min_writer = 2", "table"),
}  # fmt: skip


def contents(lake: Any, table: Any) -> dict[str, list[str]]:
    """Every row of the table."""
    store, last = lake.store, table.version
    kinds = ("txns", "domains", "cdc", "metadata", "protocol")
    found = {kind: store.other_rows(table.table_id, kind, last) for kind in kinds}
    every: dict[str, Any] = {
        "files": store.file_rows(table.table_id, last),
        "partitions": store.partitions(table.table_id),
        "partition values": store.partition_values(table.table_id),
        "head": [store.head(table.table_id)],
        "table": [store.table_columns(table.table_id)],
        **found,
    }
    return {kind: sorted(map(repr, rows)) for kind, rows in every.items()}


def test_a_lost_row_never_becomes_the_truth(lake, tmp_path):
    """The mirror keeps what the commits say until the rows are made anew."""
    table = make(lake)
    before, wanted = mirrored(table), ids(table)
    damage(lake, f"DELETE FROM dl_active_files WHERE path = ({ONE})")
    (gone,) = set(wanted) - set(ids(table))
    assert not table.mirror.validate().ok
    for arguments in ({}, {"force": True}, {"version": 9}, {"take_back": True}):
        with pytest.raises(DamagedLogError, match="not those of its commits") as caught:
            table.mirror.repair(**arguments)
        assert "rebuild" in caught.value.remedy
    with pytest.raises(DamagedLogError):
        table.mirror.export((tmp_path / "elsewhere").as_uri())
    assert not (tmp_path / "elsewhere").exists()
    assert mirrored(table) == before
    # Nor does the checkpoint that falls due write the damage down.
    for number in (40, 41, 42):
        table.append(rows(number, day="d3"))
    lake.mirror.run(once=True)
    assert table.version == 12
    assert not any(name.startswith("0" * 18 + "12.checkpoint") for name in mirrored(table))
    (status,) = lake.store.mirror_status(table.table_id, first=12, last=12)
    assert "not those of its commits" in status.error_message
    found = lake.check("t").tables["t"]
    assert [finding.kind for finding in found.findings] == ["live file"]
    assert "rebuild" in found.findings[0].remedy
    assert lake.rebuild("t").version == 12
    assert gone in ids(table)
    assert lake.check().ok
    assert table.mirror.repair().ok
    assert table.mirror.validate().ok
    assert any(name.startswith("0" * 18 + "12.checkpoint") for name in mirrored(table))
    assert ids(table) == sorted([*wanted, 40, 41, 42])
    assert len(DeltaTable(table.location).file_uris()) == len(wanted) + 3


def test_every_damage_is_found_and_mended(lake, store_url):
    table = make(lake)
    assert lake.check().ok
    whole = contents(lake, table)
    for name, (statement, kind) in DAMAGES.items():
        if "dl_partition_values" in statement and store_url.startswith("duckdb"):
            continue  # a view, which can't be wrong
        damage(lake, statement)
        assert contents(lake, table) != whole, name
        found = lake.check("t").tables["t"]
        assert kind in [finding.kind for finding in found.findings], (name, found)
        lake.rebuild("t")
        # The same rows, so that nothing of them is lost to a rebuild.
        assert contents(lake, table) == whole, name
        assert lake.check("t").ok, name


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dl_table_versions SET body = {empty} WHERE version = 3",
        "DELETE FROM dl_table_versions WHERE version = 3",
        "DELETE FROM dl_table_versions WHERE version = 9",
        "UPDATE dl_table_versions SET body_encoding = 'zstd' WHERE version = 3",
    ],
)
def test_a_lost_commit_is_found_and_never_rebuilt_from(lake, store_url, statement):
    table = make(lake)
    empty = {"s": "x'7b7d'", "d": "'{}'::BLOB", "p": "'{}'::bytea"}[store_url[0]]
    damage(lake, statement.replace("{empty}", empty))
    (finding,) = lake.check("t").tables["t"].findings
    assert finding.kind == "commit"
    assert finding.version == (9 if "= 9" in statement else 3)
    assert "backup" in finding.remedy
    before = contents(lake, table)
    with pytest.raises(DamagedLogError):
        lake.rebuild("t")
    assert contents(lake, table) == before


def test_a_check_begins_where_the_last_one_ended(lake):
    table = make(lake)
    other = make(lake, "other")
    steps: list[int] = []
    assert lake.check(progress=lambda at: steps.append(at.version)).tables["t"].since == -1
    assert steps == [*range(10), *range(10)]
    table.append(rows(50))
    steps.clear()
    report = lake.check(progress=lambda at: steps.append(at.version))
    assert report.ok
    assert (report.tables["t"].since, report.tables["other"].since) == (9, 9)
    assert steps == [10]
    assert lake.check("t", full=True).tables["t"].since == -1
    # What was proven is proven again, not believed; a neighbour's damage is its own.
    damage(lake, f"DELETE FROM dl_txn_actions WHERE version = 1 AND table_id = {other.table_id}")
    found = lake.check()
    assert [finding.kind for finding in found.tables["other"].findings] == ["txn"]
    assert found.tables["t"].ok
    assert not found.ok


def test_damage_to_what_was_proven_is_no_damage(lake):
    table = make(lake)
    lake.check()
    for column in ("files = 0", "version = 3"):
        damage(lake, f"UPDATE dl_trusted_versions SET {column}")
        assert table.mirror.repair().ok
        assert lake.check().ok
    table.append(rows(80))
    lake.mirror.run(once=True)
    assert lake.check("t", full=True).ok


def test_checks_beside_writers_find_nothing(lake):
    table = make(lake)
    stop = threading.Event()

    def write() -> None:
        number = 100
        while not stop.is_set():
            table.append(rows(number), app_id="writer", app_version=number)
            table.overwrite(rows(number + 1, day="d1"), where="day = 'd1'")
            number += 2

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reports = [lake.check(full=bool(number % 2)) for number in range(6)]
        before = table.version
        lake.rebuild("t")
        reports.append(lake.check())
        # The writer goes on with the rows that were made anew.
        until(lambda: table.version > before)
    finally:
        stop.set()
        writer.join()
    assert [report.tables["t"].findings for report in reports] == [[]] * 7
    assert lake.check(full=True).ok


@pytest.mark.postgres
def test_one_connection_is_enough(postgres_url, tmp_path):
    settings = {"sql.pool_size": 1, "sql.timeout": "10s"}
    place = (tmp_path / "lake").as_uri()
    with deltasql.connect(postgres_url, location=place, settings=settings) as lake:
        table = lake.create_table("t", SCHEMA)
        table.append(rows(1))
        damage(lake, "DELETE FROM dl_active_files")
        assert not lake.check().ok
        lake.rebuild("t")
        assert lake.check().ok
        assert ids(table) == [1]
