"""Where each object is a request: which of them a commit waits for, and in which order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deltasql.delta_log.names import LOG, commit_name, crc_name
from deltasql.mirror.publishing import look_backs
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.mirror.conftest import SCHEMA, landed, rows, statuses

WAIT = 20


class Requests(FaultyStore):
    """A store whose every call is a request; `before` is called with each when it begins."""

    def __init__(self, inner: Any, log: list[str], before: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._log = log
        self._before = before

    @property
    def is_local(self) -> bool:
        return False

    def _ask(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        name = f"{verb} {path.removeprefix(LOG) if path.startswith(LOG) else 'data'}"
        self._log.append(f"begin {name}")
        self._before(name)
        try:
            return call()
        finally:
            self._log.append(f"end {name}")

    def put(self, path: str, data: Any) -> None:
        self._ask("put", path, lambda: self.inner.put(path, data))

    def put_if_absent(self, path: str, data: Any) -> bool:
        return self._ask("put", path, lambda: FaultyStore.put_if_absent(self, path, data))

    def head(self, path: str) -> Any:
        return self._ask("head", path, lambda: FaultyStore.head(self, path))

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return self._ask("read", path, lambda: self.inner.read(path, offset=offset, length=length))


class Remote:
    """A lake's object stores as requests."""

    def __init__(self, lake: Any) -> None:
        self.log: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        self._lake = lake
        lake.objects.wrap(lambda inner: Requests(inner, self.log, self._begins))

    def _begins(self, name: str) -> None:
        self.before(name)

    def sent(self) -> list[str]:
        """What was asked so far, in the order in which it began; then it is forgotten."""
        landed(self._lake)
        found = [line.removeprefix("begin ") for line in self.log if line.startswith("begin")]
        self.log.clear()
        return found


@pytest.fixture
def remote(open_lake) -> Remote:
    lake = open_lake(sync_timeout="30s")
    found = Remote(lake)
    found.lake = lake
    return found


def _appended(remote: Remote, versions: int = 1) -> Any:
    table = remote.lake.create_table("t", SCHEMA)
    for number in range(versions):
        table.append(rows(number))
    remote.sent()
    return table


def test_an_append_waits_for_its_data_and_its_commit_alone(remote):
    table = _appended(remote)
    has_looked, may_go_on = threading.Event(), threading.Event()

    def before(name: str) -> None:
        if name == "put data":
            # Beside the data, or it would wait for ever.
            assert has_looked.wait(WAIT)
        if name.startswith("head"):
            has_looked.set()
        if name.endswith(".crc"):
            assert may_go_on.wait(2 * WAIT)

    remote.before = before
    try:
        for version in (2, 3):
            has_looked.clear()
            remote.log.clear()
            assert table.append(rows(version)) == version
            # Its status says so at once, and no checksum file has been written.
            assert statuses(table)[version].status == "SUCCESS"
            ended = [line for line in remote.log if line.startswith("end")]
            assert sorted(ended[:-1]) == [
                f"end head {commit_name(version - 1)}",
                "end put data",
            ]
            assert ended[-1] == f"end put {commit_name(version)}"
    finally:
        may_go_on.set()
    landed(remote.lake)
    names = {item.path for item in remote.lake.objects(table.location).list(LOG)}
    assert {LOG + crc_name(version) for version in range(4)} <= names
    assert table.mirror.validate().ok


def test_the_requests_of_an_append(remote):
    table = _appended(remote)
    table.append(rows(2))
    assert sorted(remote.sent()) == sorted(
        ["put data", f"head {commit_name(1)}", f"put {commit_name(2)}", f"put {crc_name(2)}"]
    )


@pytest.mark.parametrize("fresh", [0.0, 60.0])
def test_a_look_that_is_old_is_made_again(remote, monkeypatch, fresh):
    table = _appended(remote)
    monkeypatch.setattr(look_backs, "FRESH", fresh)
    table.append(rows(2))
    assert remote.sent().count(f"head {commit_name(1)}") == (1 if fresh else 2)


def test_what_another_process_wrote_last_is_read(remote, open_lake):
    table = _appended(remote)
    with open_lake() as other:
        other.table("t").append(rows(2))
    remote.sent()
    assert table.append(rows(3)) == 3
    sent = remote.sent()
    assert sent.count(f"read {commit_name(2)}") == 1
    assert sent.index(f"read {commit_name(2)}") < sent.index(f"put {commit_name(3)}")


def test_nothing_follows_a_version_that_is_gone(remote, log_of):
    table = _appended(remote, 2)
    log_of(table)[2].unlink()
    assert table.append(rows(3)) == 3
    assert not log_of(table)[3].exists()
    assert "2.json was written, and it is gone" in statuses(table)[3].error_message
    assert table.mirror.repair().ok
    assert table.mirror.validate().ok


def test_nothing_follows_a_version_that_goes_while_data_is_written(remote, log_of):
    """Seen a moment ago, or not at all: whatever is seen to be gone stops the run."""
    table = _appended(remote, 2)
    has_gone = threading.Event()

    def before(name: str) -> None:
        if name.startswith("head") and not has_gone.is_set():
            log_of(table)[2].unlink()
            has_gone.set()
        if name == "put data":
            assert has_gone.wait(WAIT)

    remote.before = before
    table.append(rows(3))
    assert not log_of(table)[3].exists()


def test_nothing_follows_a_foreign_version(remote, open_lake, log_of):
    table = _appended(remote, 2)
    log_of(table)[2].write_bytes(b"{}")
    other = open_lake()
    Remote(other)
    other.table("t").append(rows(3))
    assert not log_of(table)[3].exists()
    assert statuses(table)[3].status == "FAILED"


def test_a_look_that_fails_holds_up_nothing(remote):
    table = _appended(remote)
    failed = []

    def fails_once(name: str) -> None:
        if name.startswith("head") and not failed:
            failed.append(name)
            FaultyStore(None, lambda _: Fault.BEFORE)._begin("head", name)  # type: ignore[arg-type]

    remote.before = fails_once
    assert table.append(rows(2)) == 2
    assert failed
    assert statuses(table)[2].status == "SUCCESS"


def test_a_checksum_file_that_fails_is_left_out(remote, log_of, caplog):
    table = _appended(remote)

    def fails(name: str) -> None:
        if name.endswith(".crc"):
            FaultyStore(None, lambda _: Fault.BEFORE)._begin("put", name)  # type: ignore[arg-type]

    remote.before = fails
    table.append(rows(2))
    landed(remote.lake)
    assert statuses(table)[2].status == "SUCCESS"
    assert not log_of(table)[crc_name(2)].exists()
    assert any(crc_name(2) in text for text in caplog.messages)
    assert table.mirror.validate().ok


def test_eight_writers_of_eight_tables_wait_for_none_of_the_others(remote):
    lake = remote.lake
    tables = [lake.create_table(f"t{number}", SCHEMA) for number in range(8)]
    for table in tables:
        table.append(rows(0))
    remote.sent()
    # None of these requests ends before the same of all the others has begun.
    together = {
        what: threading.Barrier(8, timeout=WAIT)
        for what in ("put data", f"head {commit_name(1)}", f"put {commit_name(2)}")
    }

    def before(name: str) -> None:
        if name in together:
            together[name].wait()

    remote.before = before
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda table: table.append(rows(1)), tables))
    assert done == [2] * 8
    assert [statuses(table)[2].status for table in tables] == ["SUCCESS"] * 8
    assert not any(barrier.broken for barrier in together.values())
