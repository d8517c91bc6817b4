"""A commit whose connection breaks at any byte happens once, and its caller learns so."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

import deltasql
from deltasql.commit.request import propose
from tests.faults.network import FaultyLake
from tests.faults.waiting import Background, blocked, until
from tests.stress import swarm
from tests.stress.database import query
from tests.stress.writers import SCHEMA, new_add, removes

KINDS = ("append", "append_txn", "replace_files", "several", "large")


@pytest.fixture
def faulty(postgres_server, postgres_dbname, postgres_proxy, tmp_path):
    lake = FaultyLake(
        postgres_server.url(postgres_dbname),
        postgres_server.url(postgres_dbname, port=postgres_proxy.port),
        postgres_proxy,
        tmp_path,
    )
    # Connections are open and statements prepared, as in a program that has run for a while.
    for kind in KINDS[:-1]:
        for _ in range(3):
            lake.writer.do(kind)
    yield lake
    lake.close()


def _positions(kind: str, stream: str) -> list[int]:
    """Where to cut: in the headers of messages, then all along the conversation."""
    if stream == "downstream":
        return [0, 1, 5, 30, 60, 100, 140, 200, 300, 500, 1_000, 2_000]
    if kind == "large":
        return [0, 5, 100, 400, 1_000, 20_000, 100_000, 200_000, 300_000, 400_000, 10**6]
    return [0, 1, 5, 100, 300, 600, 900, 1_200, 1_600, 2_000, 2_600, 3_200, 5_000]


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
@pytest.mark.parametrize("kind", KINDS)
def test_cut_after_some_bytes(faulty, kind, stream):
    cuts = 0
    for position in _positions(kind, stream):
        lost = faulty.connections_lost()
        with faulty.trapped("limit_data", stream=stream, bytes=position):
            # Strict: the network is back at once, so the commit has to succeed.
            faulty.do(kind)
        if faulty.connections_lost() == lost:
            break
        cuts += 1
    assert cuts >= 4
    print(f"{kind} {stream}: {cuts} cuts, {faulty.check()}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("toxic", "attributes"),
    [
        ("reset_peer", {"timeout": 0}),
        ("timeout", {"timeout": 300}),
        ("timeout", {"timeout": 300, "stream": "upstream"}),
        ("slow_close", {"delay": 300}),
    ],
    ids=["reset", "lost response", "lost request", "slow close"],
)
def test_connection_dies(faulty, kind, toxic, attributes):
    for _ in range(2):
        with faulty.trapped(toxic, **attributes):
            faulty.do(kind)
    faulty.check()


@pytest.mark.parametrize("kind", KINDS)
def test_server_is_away_for_a_second(faulty, kind):
    back = threading.Timer(1, faulty.proxy.enable)

    def away() -> None:
        faulty.proxy.disable()
        back.start()

    faulty.journal.trap = away
    try:
        faulty.do(kind)
    finally:
        back.join()
    faulty.check()


def test_transaction_survives_a_connection_that_went_stale(faulty):
    requests = []
    for name in faulty.tables:
        table = faulty.lake.table(name)
        details = {"read_version": table.version, "reads": table.parse_reads("p = 1")}
        requests.append(table.request([new_add("stale", 1)], operation="WRITE", **details))
    faulty.proxy.disable()
    faulty.proxy.enable()
    assert len(faulty.lake.commits.commit_all(requests)) == len(requests)


def test_read_survives_a_connection_that_went_stale(faulty):
    faulty.proxy.disable()
    faulty.proxy.enable()
    assert len(faulty.lake.tables()) == len(faulty.tables)


class TestLostResponse:
    """The server committed, and the client never heard."""

    def test_same_commit_is_answered_with_its_version(self, faulty):
        table = faulty.lake.table(faulty.tables[0])
        before = table.version
        faulty.proxy.add("timeout", timeout=0)
        waiting = Background(lambda: table.commit([new_add("lost", 1)]))
        with deltasql.connect(faulty.url, location=faulty.location) as direct:
            there = direct.table(table.name)
            until(lambda: there.version == before + 1)
            # It is in, its writer still waits, and others go on.
            there.commit([new_add("other", 1)])
            assert waiting.is_alive()
            faulty.reconnect()
            assert waiting.result() == before + 1
            assert there.version == before + 2

    def test_commit_id_sent_again(self, postgres_url, tmp_path):
        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("a", schema=SCHEMA, partition_by=["p"])
            request = table.request([new_add("again", 1)], operation="WRITE")
            state = lake.states.current(table.table_id)
            proposal = propose(request, state)
            first = lake.store.commit(proposal)
            lake.table("a").commit([new_add("other", 1)])
            assert lake.store.commit(proposal, is_retry=True) == first
            assert lake.store.find_commit(table.table_id, request.commit_id) == first
            assert table.version == 2

    def test_a_zombie_does_not_commit_twice(self, faulty):
        """The first try waits in the server, its client gone, while the second one is sent."""
        table = faulty.lake.table(faulty.tables[0])
        before = table.version
        with deltasql.connect(faulty.url, location=faulty.location) as direct:
            with direct.store.locked([table.table_id]):
                waiting = Background(lambda: table.commit([new_add("zombie", 1)]))
                until(lambda: blocked(faulty.url) == 1)
                faulty.proxy.disable()
                faulty.proxy.enable()
                until(lambda: blocked(faulty.url) == 2)
            assert waiting.result() == before + 1
            until(lambda: blocked(faulty.url) == 0)
            assert table.version == before + 1

    @pytest.mark.parametrize("kind", ["append", "replace"])
    def test_a_zombie_that_wakes_late(self, faulty, kind):
        """The first try is still unread when the second one looks for it, then it commits."""
        table = faulty.lake.table(faulty.tables[0])
        old = new_add("old", 1)
        base = table.commit([old])
        gone = removes([old.path], 1) if kind == "replace" else []
        reads = table.parse_reads("p = 1" if kind == "replace" else None)
        request = table.request(
            [*gone, new_add("zombie", 1)], operation="WRITE", read_version=base, reads=reads
        )
        store, backends = faulty.lake.store, _Backends(faulty.url)
        commit, commits = store.commit, store.commits

        def first_try(*arguments, **options):
            store.commit = second_try
            backends.stop()
            return commit(*arguments, **options)

        def awake():
            if backends.resume():
                until(lambda: _version(faulty.url, table.table_id) == base + 1)

        def second_try(*arguments, **options):
            awake()
            return commit(*arguments, **options)

        def look(*arguments, **options):
            awake()
            return commits(*arguments, **options)

        store.commit, store.commits = first_try, look
        try:
            waiting = Background(lambda: faulty.lake.commits.commit(request))
            until(lambda: backends.are_stopped)
            # Time for the request to reach the buffers of the server.
            waiting.join(0.3)
            faulty.proxy.disable()
            faulty.proxy.enable()
            assert waiting.result().version == base + 1
        finally:
            backends.resume()
        assert table.version == base + 1

    @pytest.mark.parametrize("kind", ["replace", "transaction"])
    def test_what_others_do_afterwards_is_no_conflict(self, faulty, kind):
        """A commit that is in can't conflict any more, least of all with later ones."""
        name = faulty.tables[0]
        table = faulty.lake.table(name)
        old, new = new_add("old", 1), new_add("new", 1)
        base = table.commit([old])
        request = table.request(
            [*removes([old.path], 1), new],
            operation="WRITE",
            read_version=base,
            reads=table.parse_reads("p = 1"),
        )
        with deltasql.connect(faulty.url, location=faulty.location) as direct:
            there = direct.table(name)
            waiting = Background(lambda: _commit_unheard(faulty, request, kind))
            until(lambda: there.version == base + 1)
            there.commit(removes([new.path], 1), read_version=base + 1, reads="p = 1")
            faulty.reconnect()
            assert waiting.result().version == base + 1

    def test_rows_appended_once_though_the_schema_changed(self, faulty):
        """Another thread learns of new metadata while the answer to an append is lost."""
        table = faulty.lake.create_table("rows", schema=SCHEMA, partition_by=["p"])
        rows = pa.table({"id": [1], "p": [1], "v": ["x"]}, schema=SCHEMA)
        before = table.version
        faulty.lose_answer_of_next_commit()
        with deltasql.connect(faulty.url, location=faulty.location) as direct:
            there = direct.table(table.name)
            waiting = Background(lambda: table.append(rows))
            until(lambda: there.version == before + 1)
            metadata = there.snapshot().metadata
            there.commit([replace(metadata, description="changed")])
            faulty.lake.states.remember(table.table_id, direct.store.state(table.table_id))
            faulty.reconnect()
            assert waiting.result() == before + 1
            assert there.version == before + 2
            assert there.scan().to_arrow().num_rows == 1

    def test_ctrl_c_keeps_the_files_of_a_commit_that_may_be_in(self, faulty):
        """Nobody knows whether the commit is in: its files must stay."""
        name = "rows"
        with deltasql.connect(faulty.url, location=faulty.location) as direct:
            table = direct.create_table(name, schema=SCHEMA, partition_by=["p"])
            with direct.store.locked([table.table_id]):
                child = swarm.start(_append_row, faulty.proxied_url, faulty.location, name)
                until(lambda: blocked(faulty.url) == 1)
                faulty.proxy.add("timeout", timeout=0)
            until(lambda: table.version == 1)
            while child.is_alive():
                # Once is not enough: the driver then waits for the server to cancel.
                os.kill(child.pid, signal.SIGINT)
                child.join(0.5)
            faulty.reconnect()
            assert child.exitcode == INTERRUPTED
            assert table.scan().to_arrow().num_rows == 1


class TestHungServer:
    """The connection lives and nothing comes back: TCP sees no fault in that."""

    @pytest.mark.parametrize("kind", ["append", "several"])
    def test_a_commit_does_not_wait_for_ever(self, faulty, kind):
        with _connect_impatiently(faulty) as lake:
            tables = [lake.table(name) for name in faulty.tables[:2]]
            requests = [table.request([new_add("hung", 1)], operation="WRITE") for table in tables]
            _warm_up(tables[0])
            faulty.proxy.add("timeout", timeout=0)
            if kind == "append":
                waiting = Background(lambda: lake.commits.commit(requests[0]))
                expected = deltasql.CommitStateUnknownError
            else:
                # Not even BEGIN is answered, so that nothing can have happened.
                waiting = Background(lambda: lake.commits.commit_all(requests))
                expected = deltasql.StoreError
            with pytest.raises(expected):
                waiting.result()
            faulty.reconnect()

    def test_the_commit_is_found_when_the_server_speaks_again(self, faulty):
        with _connect_impatiently(faulty) as lake:
            table = lake.table(faulty.tables[0])
            before = _warm_up(table)
            with deltasql.connect(faulty.url, location=faulty.location) as direct:
                there = direct.table(table.name)
                pool = lake.store._connections._pool
                toxic = faulty.proxy.add("timeout", timeout=0)
                waiting = Background(lambda: table.commit([new_add("hung", 1)]))
                until(lambda: there.version == before + 1)
                until(lambda: pool.get_stats().get("returns_bad", 0) > 0)
                faulty.proxy.remove(toxic)
                assert waiting.result() == before + 1
                assert there.version == before + 1


def _connect_impatiently(faulty):
    settings = {"sql.timeout": "2s", "sql.pool_size": 2, "mirror.mode": "off"}
    return deltasql.connect(faulty.proxied_url, location=faulty.location, settings=settings)


def _warm_up(table):
    """Every connection of the pool has prepared its statement; returns the version."""
    for _ in range(3):
        table.commit([new_add("before", 1)])
    return table.version


class _Backends:
    """The server's processes for the connections that a lake has now."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pids: list[int] = []
        self.are_stopped = False

    def stop(self) -> None:
        found = query(
            self._url,
            "SELECT pid FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'deltasql'",
        )
        self._pids = [pid for (pid,) in found]
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)
        self.are_stopped = True

    def resume(self) -> bool:
        """Let them go on; False if they never stopped."""
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        stopped, self.are_stopped, self._pids = self.are_stopped, False, []
        return stopped


def _version(url: str, table_id: int) -> int:
    ((version,),) = query(
        url, f"SELECT current_version FROM dl_table_heads WHERE table_id = {table_id}"
    )
    return int(version)


INTERRUPTED = 77


def _append_row(url: str, location: str, name: str) -> None:
    """In a process of its own: append, and say by the exit code how it ended."""
    with deltasql.connect(url, location=location) as lake:
        try:
            lake.table(name).append(pa.table({"id": [1], "p": [1], "v": ["x"]}, schema=SCHEMA))
        except KeyboardInterrupt:
            os._exit(INTERRUPTED)


def _commit_unheard(faulty, request, kind):
    """Commit while the answer to the commit itself, and nothing else, is lost."""
    if kind == "replace":
        faulty.lose_answer_of_next_commit()
        return faulty.lake.commits.commit(request)
    (done,) = faulty.lake.commits.commit_all(
        [request], inside=lambda _: faulty.proxy.add("timeout", timeout=0)
    )
    return done
