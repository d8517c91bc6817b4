"""Appends of many callers become few commits, and each caller is told of its own."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import SchemaMismatchError, ValidationError
from tests.faults.test_forks import Child
from tests.faults.waiting import until

LONG = "1h"


@pytest.fixture
def plain(lake):
    return lake.create_table("plain", pa.schema([("id", pa.int64()), ("text", pa.string())]))


def line(number):
    return pa.table({"id": [number], "text": [f"t{number}"]})


@pytest.fixture
def held(plain, monkeypatch):
    """Commits of the table wait for this event; `begun` has as many items as have begun."""
    may_commit, begun = threading.Event(), []
    real = plain.commit_written

    def commit_written(*given):
        begun.append(given)
        return may_commit.wait(60) and real(*given)

    monkeypatch.setattr(plain, "commit_written", commit_written)
    return may_commit, begun


def test_what_comes_during_a_commit_is_the_next_one(plain, held, ids, data_files):
    """The first caller waits for nobody, however long rows may wait; all others share."""
    may_commit, begun = held
    with plain.appender(LONG) as appender, ThreadPoolExecutor(16) as pool:
        first = pool.submit(appender.append, line(0))
        until(lambda: len(begun) == 1)
        rest = [pool.submit(appender.append, line(number)) for number in range(1, 16)]
        until(lambda: len(appender._queue) == 15)
        may_commit.set()
        assert first.result(60) == 1
        assert {future.result(60) for future in rest} == {2}
    assert ids(plain) == list(range(16))
    assert len(data_files()) == 2


def test_threads_that_come_again_and_again(plain, ids):
    """Nobody waits for callers that have gone, and no row is lost or doubled."""

    def work(worker):
        # The threads end one after the other.
        return [appender.append(line(worker * 100 + n)) for n in range(5 * (worker + 1))]

    with plain.appender(LONG) as appender, ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(work, range(4)))
    assert ids(plain) == [worker * 100 + n for worker in range(4) for n in range(5 * (worker + 1))]
    assert all(told == sorted(set(told)) for told in versions)


def test_whoever_waits_takes_along_what_nobody_waits_for(plain, ids):
    with plain.appender(LONG) as appender:
        told = appender.submit(line(1))
        assert appender.append(line(2)) == told.result(0) == 1
    assert ids(plain) == [1, 2]


def test_an_append_returns_when_its_rows_are_there(plain, ids):
    with plain.appender(timedelta(milliseconds=1)) as appender:
        for number in range(3):
            assert appender.append(line(number)) == plain.version
            assert ids(plain) == list(range(number + 1))


def test_partitions_and_every_way_to_give_rows(orders, rows, ids):
    with orders.appender(LONG) as appender:
        told = [
            appender.submit(rows(1)),
            appender.submit(rows(2, day="2026-11-02").to_batches()[0]),
            appender.submit(rows(3).to_pandas()),
            appender.submit(
                pa.RecordBatchReader.from_batches(rows(4).schema, rows(4, 5).to_batches())
            ),
            appender.submit(rows()),
        ]
    assert {receipt.result() for receipt in told} == {1}
    assert ids(orders) == [1, 2, 3, 4, 5]
    assert orders.snapshot().files().num_rows == 2


def test_max_rows_and_flush_end_the_wait(plain, ids):
    with plain.appender(LONG, max_rows=10) as appender:
        first, *_ = [appender.submit(line(number)) for number in range(10)]
        assert first.result(timeout=60) == 1
        last = appender.submit(line(10))
        time.sleep(0.05)
        assert not last.done()
        appender.flush()
        assert last.done()
        assert ids(plain) == list(range(11))


def test_rows_that_do_not_fit_sink_nobody(lake, plain, ids):
    lake.table("plain").add_constraint("small", "id < 100")
    not_utf8 = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    with plain.appender(LONG) as appender:
        good = [appender.submit(line(number)) for number in range(5)]
        # Nothing shows it before its file is made.
        bad = appender.submit(pa.table({"id": [7], "text": not_utf8}))
        good += [appender.submit(line(number)) for number in (5, 6)]
        with pytest.raises(SchemaMismatchError, match="no column"):
            appender.submit(pa.table({"id": [1], "other": [1]}))
        with pytest.raises(SchemaMismatchError, match="CHECK"):
            appender.append(line(100))
        with pytest.raises(SchemaMismatchError, match="UTF-8"):
            (appender.flush(), bad.result())
    assert all(receipt.result() for receipt in good)
    assert ids(plain) == list(range(7))


def test_a_schema_that_changes_while_rows_wait(lake, store_url, plain, ids):
    with plain.appender(LONG) as appender:
        told = [appender.submit(line(1)), appender.submit(line(2))]
        gone = appender.submit(line(300))
        # By another handle, which this process's memory of the table knows nothing of.
        known = lake.states.current(plain.table_id)
        lake.table("plain").add_column("more", "long")
        lake.table("plain").add_constraint("small", "id < 100")
        lake.states._states[plain.table_id] = known
        with pytest.raises(SchemaMismatchError, match="CHECK"):
            (appender.flush(), gone.result())
        told.append(appender.submit(pa.table({"id": [3], "text": ["x"], "more": [1]})))
    assert [receipt.result() for receipt in told] == [3, 3, 4]
    assert plain.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "text": "t1", "more": None},
        {"id": 2, "text": "t2", "more": None},
        {"id": 3, "text": "x", "more": 1},
    ]


def test_exactly_once_with_app_ids(plain, ids):
    plain.append(line(1), app_id="a", app_version=1)
    plain.append(line(9))
    with plain.appender(LONG) as appender:
        before = appender.submit(line(1), app_id="a", app_version=1)
        told = [
            appender.submit(line(2), app_id="b", app_version=1),
            appender.submit(line(3)),
            appender.submit(line(2), app_id="b", app_version=1),
            appender.submit(line(4), app_id="b", app_version=2),
            appender.submit(line(5), app_id="a", app_version=2),
        ]
        with pytest.raises(ValidationError, match="belong together"):
            appender.append(line(6), app_id="c")
    assert before.result() == 1
    first, free, again, second, other = [receipt.result() for receipt in told]
    assert first == free == 3
    assert first <= again < second
    assert other >= first
    assert ids(plain) == [1, 2, 3, 4, 5, 9]
    with plain.appender("1ms") as appender:
        assert appender.append(line(2), app_id="b", app_version=1) == second
    assert ids(plain) == [1, 2, 3, 4, 5, 9]


def test_whoever_hands_in_too_much_waits(plain, held, ids):
    may_commit, _ = held
    with plain.appender(LONG, max_rows=2) as appender, ThreadPoolExecutor(1) as pool:
        handed: list[int] = []

        def hand_in():
            for number in range(20):
                appender.submit(line(number))
                handed.append(number)

        done = pool.submit(hand_in)
        time.sleep(0.2)
        # One batch is under way, two wait, and the hand that brings more.
        assert 2 <= len(handed) <= 7
        may_commit.set()
        done.result(timeout=60)
    assert ids(plain) == list(range(20))


def test_closed_is_closed(plain, ids):
    appender = plain.appender(LONG)
    told = appender.submit(line(1))
    dropped = appender.submit(line(2))
    assert dropped.cancel()
    appender.flush()
    appender.close()
    assert told.result(timeout=0) == 1
    assert ids(plain) == [1]
    with pytest.raises(ValidationError, match="closed"):
        appender.append(line(3))
    appender.close()


def test_a_lake_that_closes_commits_what_was_handed_in(store_url, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with deltasql.connect(store_url, location=str(tmp_path / "lake")) as lake:
        told = lake.create_table("t", schema).appender(LONG).submit(line(1))
    assert told.result(timeout=0) == 1


def test_an_error_in_the_block_loses_no_rows(plain, ids):
    def work():
        with plain.appender(LONG) as appender:
            appender.submit(line(1))
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        work()
    assert ids(plain) == [1]


@pytest.mark.parametrize("verb", ["append", "flush", "close"])
def test_a_callback_can_not_wait_for_its_own_thread(plain, ids, verb):
    """It runs in the thread that commits: the appender would stand still for ever."""
    told, calls = [], {"append": lambda a: a.append(line(3)), "flush": lambda a: a.flush()}
    call = calls.get(verb, lambda a: a.close())

    def callback(_):
        try:
            call(appender)
        except ValidationError as error:
            appender.submit(line(2))
            told.append(error)

    with plain.appender("10ms") as appender:
        appender.submit(line(1)).add_done_callback(callback)
        until(lambda: told)
    assert verb in told[0].problem
    assert sorted(ids(plain)) == [1, 2]


@pytest.mark.parametrize("given", [{"max_delay": "soon"}, {"max_rows": 0}])
def test_what_makes_no_sense_is_refused(plain, given):
    with pytest.raises(ValidationError):
        plain.appender(**given)


@pytest.mark.postgres
def test_a_forked_child_has_an_appender_of_its_own(postgres_url, tmp_path):
    """Rows that the parent holds are committed by the parent, once."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with deltasql.connect(postgres_url, location=str(tmp_path / "lake")) as lake:
        table = lake.create_table("t", schema)
        with table.appender(LONG) as appender:
            appender.submit(line(1))

            def work():
                told = appender.submit(line(2))
                appender.flush()
                return told.result()

            assert Child(work).result() == 1
        found = table.scan().to_arrow().column("id").to_pylist()
    assert sorted(found) == [1, 2]
