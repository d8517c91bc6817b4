"""What only DuckDB has: one process, shared instances, and its own ideas of types."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import ConfigError, DatabaseError, SchemaVersionError, StoreTimeoutError
from deltasql.spec.actions import Txn
from deltasql.store import connect
from deltasql.store.connect import open_log
from deltasql.store.duckdb import session
from deltasql.testing.proposals import add, commit, create, live, proposal, remove

HOLDER = """
import sys
from deltasql.store.connect import open_log

store = open_log(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_second_process_is_told_who_holds_the_file(duckdb_url: str):
    command = [sys.executable, "-c", HOLDER, duckdb_url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(DatabaseError, match="another process") as caught:
            open_log(duckdb_url)
        assert caught.value.holder_pid == holder.pid
        assert str(holder.pid) in caught.value.cause
        assert "SQLite or PostgreSQL" in caught.value.remedy
        holder.communicate("")
    open_log(duckdb_url).close()


def test_stores_of_a_process_share_the_file(duckdb_url: str, monkeypatch: pytest.MonkeyPatch):
    first = open_log(duckdb_url)
    path = Path(duckdb_url.removeprefix("duckdb:///"))
    monkeypatch.chdir(path.parent)
    second = open_log(f"duckdb:///../{path.parent.name}/{path.name}")
    table_id = create(first)
    commit(second, table_id, add("a"))
    first.close()
    first.close()
    assert live(second, table_id, 1) == [("a", 1)]
    with pytest.raises(DatabaseError, match="closed"):
        first.tables()
    second.close()
    # Nobody has it open: another process may.
    command = [sys.executable, "-c", HOLDER, duckdb_url]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    assert done.stdout == "open\n"


def test_forked_child_is_refused(duckdb_url: str):
    store = open_log(duckdb_url)
    fork = multiprocessing.get_context("fork")
    answer = fork.SimpleQueue()

    def work() -> None:
        for attempt in (store.tables, lambda: open_log(duckdb_url)):
            try:
                attempt()
            except DatabaseError as error:
                answer.put(str(error))

    child = fork.Process(target=work)
    child.start()
    child.join()
    assert "forked" in answer.get()
    assert "forked" in answer.get()


def test_turn_that_does_not_come_in_time(duckdb_url: str):
    store, other = open_log(duckdb_url), open_log(duckdb_url, timeout=0.1)
    table_id = create(store)
    failures: list[Exception] = []

    def work() -> None:
        try:
            commit(other, table_id, add("a"))
        except StoreTimeoutError as error:
            failures.append(error)

    with store.locked([table_id]):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with pytest.raises(DatabaseError, match="locked block"):
            commit(other, table_id, add("a"))
    assert len(failures) == 1
    assert commit(other, table_id, add("a")).version == 1


def test_bytes_and_ids_are_not_read_as_something_else(duckdb_url: str):
    store = open_log(duckdb_url)
    table_id = create(store)
    # Texts that look like a UUID stay as they are written, bytes that look like escapes, too.
    commit_id = "A8B1C0DE-0000-4000-8000-00000000000A"
    body = proposal(table_id).body
    raw = type(body)(b'\\x41\x00\xff"', b"\\x00", bytes(range(256)))
    done = commit(store, table_id, add("a"), commit_id=commit_id, body=raw)
    assert store.find_commit(table_id, commit_id) == done
    assert store.find_commit(table_id, commit_id.lower()) is None
    (record,) = store.commits(table_id, after=0)
    assert record.body == raw.fill(done.in_commit_timestamp)
    with store.locked([]) as log:
        ((at, key, vector),) = log.execute(
            "SELECT epoch_ms(v.committed_at), f.path_key, f.dv_key FROM dl_table_versions v"
            " JOIN dl_active_files f USING (table_id, version) WHERE version = 1"
        )
    assert at == done.in_commit_timestamp
    assert (len(key), vector) == (16, b"")


@pytest.mark.parametrize("count", [1, 3, 4, 20])
def test_few_and_many_files_alike(duckdb_url: str, count: int):
    store = open_log(duckdb_url)
    table_id = create(store, None, [add("0", size=1)])
    names = [str(number) for number in range(count)]
    commit(store, table_id, *map(add, names), Txn(app_id="x", version=1))
    assert live(store, table_id, 1) == sorted((name, 1) for name in names)
    assert live(store, table_id, 0) == [("0", 0)]
    commit(store, table_id, *map(remove, names))
    assert live(store, table_id, 2) == []


def test_missing_driver(duckdb_url: str, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("deltasql.store.duckdb")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ConfigError) as caught:
        connect.open_log(duckdb_url)
    assert caught.value.remedy == "pip install 'deltasql[duckdb]'"


def test_file_that_is_no_database(tmp_path: Path):
    path = tmp_path / "lake.duckdb"
    path.write_text("not a database" * 1000)
    with pytest.raises(DatabaseError, match=r"lake\.duckdb"):
        open_log(f"duckdb:///{path}")


def test_directory_that_is_not_there(tmp_path: Path):
    with pytest.raises(DatabaseError, match="can't be opened"):
        open_log(f"duckdb:///{tmp_path}/nowhere/lake.duckdb")
    with pytest.raises(SchemaVersionError, match="there is no lake in this database"):
        open_log(f"duckdb:///{tmp_path}/lake.duckdb", schema="error")
    assert list(tmp_path.iterdir()) == []


def test_describes_its_settings(duckdb_url: str):
    described = open_log(duckdb_url).describe()
    assert described["dialect"] == "duckdb"
    assert described["checkpoint_threshold"]


DIES_NEW = """
import os, sys
from deltasql.store.connect import open_log
from deltasql.testing.proposals import add, commit, create

store = open_log(sys.argv[1])
commit(store, create(store, "t"), add("a"))
os._exit(0)
"""

DIES_MIGRATING = """
import os, sys
import duckdb
from deltasql.store.migrations import migrate

connection = duckdb.connect(sys.argv[1].partition(":///")[2])
connection.execute("BEGIN")
migrate(connection, "duckdb", "create")
connection.execute("COMMIT")
os._exit(0)
"""


def test_a_new_database_survives_the_death_of_its_process(duckdb_url: str):
    subprocess.run([sys.executable, "-c", DIES_NEW, duckdb_url], check=True)
    store = open_log(duckdb_url)
    (table,) = store.tables()
    assert live(store, table.table_id, 1) == [("a", 1)]
    store.close()


def test_a_database_whose_process_died_with_the_schema_unsaved_opens(duckdb_url: str):
    subprocess.run([sys.executable, "-c", DIES_MIGRATING, duckdb_url], check=True)
    assert Path(duckdb_url.partition(":///")[2] + ".wal").stat().st_size > 0
    store = open_log(duckdb_url)
    assert store.tables() == []
    store.close()


def _append_and_run(lake, statements):
    with lake.transaction() as tx:
        tx.table("t").append(pa.table({"id": [1]}))
        for statement in statements:
            tx.sql_execute(statement)


def test_an_index_that_commit_refuses_is_not_tried_again(duckdb_url):
    """It is checked by COMMIT alone, which would refuse it for ever."""
    statements = [
        "CREATE TABLE own (x INTEGER)",
        "INSERT INTO own VALUES (1), (1)",
        "CREATE UNIQUE INDEX own_x ON own (x)",
    ]
    with deltasql.connect(duckdb_url, settings={"sql.timeout": "30s"}) as lake:
        table = lake.create_table("t", pa.schema([("id", pa.int64())]))
        began = time.monotonic()
        with pytest.raises(deltasql.DatabaseError, match="constraint violation") as caught:
            _append_and_run(lake, statements)
        assert time.monotonic() - began < 10
        assert caught.value.is_refusal
        assert not caught.value.is_transient
        assert table.version == 0


def test_a_disk_that_is_almost_full_takes_no_commit(duckdb_url, tmp_path, monkeypatch):
    """DuckDB would abort the whole process where it can't write to the end."""
    with deltasql.connect(duckdb_url, location=(tmp_path / "lake").as_uri()) as lake:
        table = lake.create_table("t", pa.schema([("id", pa.int64())]))
        with monkeypatch.context() as patch:
            patch.setattr(session, "ROOM", 1 << 62)
            with pytest.raises(DatabaseError, match="almost full") as caught:
                table.append(pa.table({"id": [1]}))
        assert caught.value.is_refusal
        assert "free space" in caught.value.remedy
        assert table.append(pa.table({"id": [1]})) == 1
