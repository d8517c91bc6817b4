"""What only SQLite has: several processes on a file, their queue, and files of all sorts."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from deltasql.errors import DatabaseError, SchemaVersionError, StoreTimeoutError
from deltasql.store.connect import open_log
from deltasql.store.sqlite.file_queue import FileQueue
from deltasql.testing.proposals import add, commit, create, live, proposal

# Without fork the child would not inherit what these tests are about.
FORK = multiprocessing.get_context("fork")


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


# --- durability and several processes -------------------------------------------------


def test_settings_are_durable(sqlite_url: str):
    described = open_log(sqlite_url).describe()
    assert described["journal_mode"] == "wal"
    assert described["synchronous"] == "full"


WRITER = """
import sys
from deltasql.store.connect import open_log
from deltasql.testing.proposals import add, proposal

store = open_log(sys.argv[1])
number = 0
while True:
    files = [add(f"{sys.argv[3]}-{number}-{half}") for half in "ab"]
    done = store.commit(proposal(int(sys.argv[2]), files))
    print(done.version, flush=True)
    number += 1
"""


def start_writer(url: str, table_id: int, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, url, str(table_id), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_writers_leave_nothing_half_written(sqlite_url: str):
    store = open_log(sqlite_url)
    table_id = create(store)
    acknowledged: list[int] = []
    for round_ in range(3):
        writers = [start_writer(sqlite_url, table_id, f"{round_}-{name}") for name in "ab"]
        for writer in writers:
            assert writer.stdout is not None
            acknowledged.append(int(writer.stdout.readline()))
        time.sleep(random.uniform(0.05, 0.3))
        for writer in writers:
            writer.kill()
        for writer in writers:
            assert writer.stdout is not None
            lines = writer.stdout.read().splitlines(keepends=True)
            acknowledged += [int(line) for line in lines if line.endswith("\n")]
            writer.wait()
        # The killed ones hold nobody up.
        acknowledged.append(commit(store, table_id, add(f"after-{round_}")).version)
    history = store.history(table_id)
    assert [record.version for record in history] == list(range(len(history) - 1, -1, -1))
    assert set(acknowledged) <= {record.version for record in history}
    assert len(acknowledged) == len(set(acknowledged))
    files = live(store, table_id, history[0].version)
    assert len(files) == 2 * (len(history) - 1) - 3
    with sqlite3.connect(path_of(sqlite_url)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_killed_holder_frees_the_queue(sqlite_url: str):
    store = open_log(sqlite_url, timeout=10)
    table_id = create(store)
    ready = FORK.Event()

    def hold() -> None:
        with open_log(sqlite_url).locked([table_id]) as log:
            log.write(proposal(table_id, [add("never")]))
            ready.set()
            time.sleep(60)

    holder = FORK.Process(target=hold)
    holder.start()
    assert ready.wait(20)
    threading.Timer(0.3, lambda: os.kill(holder.pid or 0, signal.SIGKILL)).start()
    assert commit(store, table_id, add("a")).version == 1
    holder.join()
    assert live(store, table_id, 1) == [("a", 1)]


def test_forked_child_works_beside_its_parent(sqlite_url: str):
    store = open_log(sqlite_url)
    table_id = create(store)
    commit(store, table_id, add("before"))
    reader = store.files(table_id, 1)

    def work() -> None:
        for number in range(20):
            commit(store, table_id, add(f"child-{number}"))
        os._exit(0 if len(live(store, table_id, 99)) > 20 else 1)

    child = FORK.Process(target=work)
    child.start()
    for number in range(20):
        commit(store, table_id, add(f"parent-{number}"))
    child.join()
    assert child.exitcode == 0
    assert len(live(store, table_id, 99)) == 41
    assert reader.read_all().num_rows == 1


def test_fork_during_a_commit_does_not_keep_the_lock(sqlite_url: str):
    store = open_log(sqlite_url, timeout=5)
    table_id = create(store)
    with store.locked([table_id]):
        child = FORK.Process(target=time.sleep, args=(10,))
        child.start()
    try:
        assert commit(store, table_id, add("a")).version == 1
    finally:
        child.kill()
        child.join()


def test_child_forked_in_the_middle_of_something_is_refused(sqlite_url: str):
    store = open_log(sqlite_url)
    table_id = create(store)
    answer = FORK.SimpleQueue()

    def work() -> None:
        for attempt in (store.tables, lambda: open_log(sqlite_url)):
            try:
                attempt()
            except DatabaseError as error:
                answer.put(error.remedy)

    with store.locked([table_id]):
        child = FORK.Process(target=work)
        child.start()
        child.join()
    assert "spawn" in answer.get()
    assert "spawn" in answer.get()
    assert commit(store, table_id, add("a")).version == 1


def test_closed_store(sqlite_url: str):
    store = open_log(sqlite_url)
    table_id = create(store)
    commit(store, table_id, *(add(str(number)) for number in range(20_000)))
    reader = store.files(table_id, 1)
    store.close()
    store.close()
    with pytest.raises(DatabaseError, match="closed"):
        store.tables()
    with pytest.raises(DatabaseError, match="closed"):
        commit(store, table_id)
    assert reader.read_all().num_rows == 20_000


# --- waiting --------------------------------------------------------------------------


def test_turn_that_does_not_come_in_time(sqlite_url: str):
    store, other = open_log(sqlite_url), open_log(sqlite_url, timeout=0.2)
    table_id = create(store)
    with store.locked([table_id]):
        for _ in range(2):
            with pytest.raises(StoreTimeoutError, match=r"0\.2 s") as caught:
                commit(other, table_id, add("a"))
            assert "sql.timeout" in caught.value.remedy
    # Who gave up left no lock behind.
    assert commit(other, table_id, add("a")).version == 1
    assert commit(store, table_id, add("b")).version == 2


def test_foreign_program_that_holds_the_database(sqlite_url: str):
    store = open_log(sqlite_url, timeout=0.2)
    table_id = create(store)
    foreign = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreTimeoutError, match="locked"):
        commit(store, table_id, add("a"))
    foreign.execute("ROLLBACK")
    assert commit(store, table_id, add("a")).version == 1


def test_write_inside_a_locked_block_does_not_wait_for_itself(sqlite_url: str):
    store = open_log(sqlite_url)
    table_id = create(store)
    with store.locked([table_id]), pytest.raises(DatabaseError, match="locked block"):
        commit(store, table_id, add("a"))


def test_queue_is_fair_to_threads(tmp_path: Path):
    queue = FileQueue(str(tmp_path / "x.lock"))
    turns: list[int] = []
    stop = time.monotonic() + 0.5

    def work(number: int) -> None:
        while time.monotonic() < stop:
            assert queue.acquire(10)
            turns.append(number)
            queue.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [turns.count(number) for number in range(4)]
    assert min(counts) > max(counts) / 3, counts


def test_queue_gives_up_and_goes_on(tmp_path: Path):
    path = tmp_path / "x.lock"
    queue = FileQueue(str(path))
    with path.open("w") as foreign:
        fcntl.flock(foreign, fcntl.LOCK_EX)
        assert not queue.acquire(0.05)
        assert not queue.acquire(0.05)
        threading.Timer(0.1, lambda: fcntl.flock(foreign, fcntl.LOCK_UN)).start()
        assert queue.acquire(10)
    queue.release()
    assert queue.acquire(0.5)
    queue.release()
    queue.close()


# --- files of all sorts ---------------------------------------------------------------


def test_file_that_is_no_database(tmp_path: Path):
    path = tmp_path / "lake.db"
    path.write_text("not a database at all, but long enough to be asked " * 20)
    with pytest.raises(DatabaseError, match=r"lake\.db") as caught:
        open_log(f"sqlite:///{path}")
    assert "name another file" in caught.value.remedy
    assert path.read_text().startswith("not a database")


def test_directory_that_is_not_there(tmp_path: Path):
    with pytest.raises(DatabaseError, match="can't be opened") as caught:
        open_log(f"sqlite:///{tmp_path}/nowhere/lake.db")
    assert "nowhere" in caught.value.cause
    assert "create it" in caught.value.remedy


def test_directory_in_place_of_a_file(tmp_path: Path):
    with pytest.raises(DatabaseError, match="can't be opened"):
        open_log(f"sqlite:///{tmp_path}")


def test_missing_file_is_not_created_to_be_checked(tmp_path: Path):
    with pytest.raises(SchemaVersionError, match="there is no lake in this database"):
        open_log(f"sqlite:///{tmp_path}/lake.db", schema="error")
    assert list(tmp_path.iterdir()) == []


def test_file_that_may_not_be_written():
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lake.db"
        open_log(f"sqlite:///{path}").close()
        Path(directory).chmod(0o755)
        path.chmod(0o444)
        answer = FORK.SimpleQueue()

        def work() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)
            try:
                open_log(f"sqlite:///{path}")
            except DatabaseError as error:
                answer.put(str(error))
            else:
                answer.put("opened")

        child = FORK.Process(target=work)
        child.start()
        child.join()
        assert "make the file and its directory writable" in answer.get()


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    store = open_log("sqlite:///lake.db")
    monkeypatch.chdir("/")
    create(store)
    assert (tmp_path / "lake.db").exists()
    assert not Path("/lake.db").exists()


# --- what people see ------------------------------------------------------------------


def test_times_are_text_that_sqlite_reads(sqlite_url: str):
    store = open_log(sqlite_url)
    done = commit(store, create(store), add("a"))
    connection = sqlite3.connect(path_of(sqlite_url))
    ((at, seconds),) = connection.execute(
        "SELECT committed_at, unixepoch(committed_at) FROM dl_table_versions WHERE version = 1"
    )
    assert seconds == done.in_commit_timestamp // 1000
    assert at.endswith(f".{done.in_commit_timestamp % 1000:03}")


def test_keys_are_json(sqlite_url: str):
    store = open_log(sqlite_url)
    table_id = create(store)
    sent = proposal(table_id, [add("a")])
    row = sent.rows.adds[0]._replace(
        min_keys=[1.0, None, 2.5, 1e300, -0.0], max_keys=[10.0], null_counts=[0, None]
    )
    commit(store, table_id, add("a"), rows=type(sent.rows)(adds=[row]))
    connection = sqlite3.connect(path_of(sqlite_url))
    found = connection.execute("SELECT min_keys, max_keys, null_counts FROM dl_active_files")
    assert [json.loads(text) for text in found.fetchone()] == [
        [1, None, 2.5, 1e300, 0],
        [10],
        [0, None],
    ]
