"""What only a disk can do: races of processes, death between two system calls, side files."""

import errno
import fcntl
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from deltasql.errors import StoreError
from deltasql.objectstore import ObjectStore, PutChain, files, open_store
from deltasql.objectstore.local import LocalStore
from deltasql.objectstore.names import lock_name
from tests.faults.waiting import Background

KEY = "_delta_log/00000000000000000007.json"
RACER = """
    import sys, time
    from deltasql.objectstore import open_store

    store, name, rounds = open_store(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(rounds):
        while store.head(f"go/{number}") is None:
            time.sleep(0)
        won = store.put_if_absent(f"race/{number}", name.encode() * 1000)
        store.put_if_absent(f"answer/{number}/{name}", b"won" if won else b"lost")
"""
DYING = """
    import os, sys, time
    from deltasql.objectstore import open_store

    def link(*_):
        print("written", flush=True)
        time.sleep(60)

    os.link = link
    store, key = open_store(sys.argv[1]), sys.argv[3]
    match sys.argv[2]:
        case "one":
            store.put_if_absent(key, b"x" * 10_000)
        case "many":
            store.put_many_if_absent([(key, b"x" * 10_000), (key + "2", b"y")])
        case "big":
            with store.open_output(key) as sink:
                sink.write(b"x" * 10_000_000)
        case "tagged":
            store.put_if_match(key, b"x" * 10_000, None)
"""


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path))


def _spawn(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_racing_processes_have_one_winner(store, tmp_path):
    rounds, names = 30, ["a", "b", "c", "d"]
    racers = [_spawn(RACER, str(tmp_path), name, str(rounds)) for name in names]
    for racer in racers:
        assert racer.stdout.readline() == b"ready\n"
        racer.stdin.write(b"go\n")
        racer.stdin.flush()
    for number in range(rounds):
        store.put(f"go/{number}", b"")
        while len(list(store.list(f"answer/{number}"))) < len(names):
            assert all(racer.poll() in (None, 0) for racer in racers)
            time.sleep(0.001)
        winners = [name for name in names if store.read(f"answer/{number}/{name}") == b"won"]
        assert len(winners) == 1
        assert store.read(f"race/{number}") == winners[0].encode() * 1000
    for racer in racers:
        racer.communicate()
        assert racer.returncode == 0


@pytest.mark.parametrize("how", ["one", "many", "big", "tagged"])
def test_a_writer_killed_before_the_link_leaves_nothing_visible(store, tmp_path, how):
    writer = _spawn(DYING, str(tmp_path), how, KEY)
    assert writer.stdout.readline() == b"written\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()

    assert store.head(KEY) is None
    assert list(store.list()) == []
    left = list(tmp_path.rglob("*.tmp"))
    assert len(left) == (2 if how == "many" else 1)
    assert store.remove_stale_temps("_delta_log", 86_400_000) == 0
    assert store.put_if_match(KEY, b"mine", None)
    for path in left:
        os.utime(path, (time.time() - 90_000,) * 2)
    assert store.remove_stale_temps("_delta_log", 86_400_000) == len(left)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [KEY[11:]]


def test_only_temporary_files_of_ours_are_removed(store, tmp_path):
    for name in (".a.tmp", "a.tmp", f".a.{'0' * 31}.tmp", f"a.{'0' * 32}.tmp"):
        (tmp_path / name).touch()
    (tmp_path / f".a.{'0' * 32}.tmp").touch()
    assert store.remove_stale_temps("", 0) == 1
    assert len(list(store.list())) == 4


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
@pytest.mark.parametrize("can_rename", [True, False])
def test_disks_without_links(store, tmp_path, monkeypatch, code, can_rename):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    if not can_rename:
        monkeypatch.setattr(files, "_rename_without_replacing", refuse)
    assert store.put_if_absent(KEY, b"1") is True
    assert store.put_if_absent(KEY, b"2") is False
    assert files.publish(str(_written(tmp_path, b"2")), str(tmp_path / KEY)) is False
    assert store.read(KEY) == b"1"
    with store.open_output("big") as sink:
        sink.write(b"3")
    assert (sink.created, store.read("big")) == (True, b"3")
    assert store.put_many_if_absent([("x", b"1"), ("big", b"2")]) == PutChain(1, exists=True)
    assert list(tmp_path.rglob(".*")) == [tmp_path / ".foreign"]


def _written(directory: Path, data: bytes) -> Path:
    path = directory / ".foreign"
    path.write_bytes(data)
    return path


class TestHadoopChecksums:
    """Rule 36: a stale `.V.json.crc` makes Spark refuse the file beside it."""

    def test_rule_36_a_stale_one_goes_before_its_object_appears(self, store, tmp_path):
        checksum = tmp_path / "_delta_log" / f".{KEY[11:]}.crc"
        checksum.parent.mkdir()
        checksum.write_bytes(b"stale")
        assert store.put_if_absent(KEY, b"1")
        assert not checksum.exists()

    def test_rule_36_one_that_has_its_object_stays(self, store, tmp_path):
        (tmp_path / "a").write_bytes(b"theirs")
        (tmp_path / ".a.crc").write_bytes(b"theirs")
        assert not store.put_if_absent("a", b"1")
        with store.open_output("a") as sink:
            sink.write(b"1")
        assert sink.created is False
        assert (tmp_path / ".a.crc").exists()

    def test_rule_36_replacing_an_object_removes_its_checksum(self, store, tmp_path):
        (tmp_path / "_last_checkpoint").write_bytes(b"theirs")
        (tmp_path / "._last_checkpoint.crc").write_bytes(b"theirs")
        tag = hashlib.sha256(b"theirs").hexdigest()
        assert not store.put_if_match("_last_checkpoint", b"1", "another")
        assert (tmp_path / "._last_checkpoint.crc").exists()
        assert store.put_if_match("_last_checkpoint", b"1", tag)
        assert [path.name for path in tmp_path.iterdir()] == ["_last_checkpoint"]

    def test_rule_36_moving_aside_leaves_one_that_the_next_put_removes(self, store, tmp_path):
        (tmp_path / "a").write_bytes(b"theirs")
        (tmp_path / ".a.crc").write_bytes(b"theirs")
        assert store.move_aside("a", "a.foreign")
        assert store.put_if_absent("a", b"ours")
        assert not (tmp_path / ".a.crc").exists()


def test_directories_are_synced_once_for_many(store, monkeypatch):
    store.put_if_absent(KEY, b"")
    synced = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    store.put_many_if_absent([(f"_delta_log/{number}", b"1") for number in range(150)])
    assert len(synced) == 1
    # Found, and so perhaps not yet safe: its writer may have died before it synced.
    assert not store.put_if_absent(KEY, b"")
    assert len(synced) == 2


def test_errors_of_many_puts_say_how_many_are_done(store, tmp_path, monkeypatch):
    real, links = os.link, []

    def link(source, target):
        links.append(target)
        if len(links) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    put = store.put_many_if_absent([(name, b"1") for name in "abcd"])
    assert put.count == 2
    assert "'c'" in put.failure.problem
    assert pickle.loads(pickle.dumps(put.failure)).path == "c"
    assert "make space" in str(put.failure)
    assert not put.failure.is_transient
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("code", "is_transient", "remedy"),
    [
        (errno.EACCES, False, "docs/permissions.md"),
        (errno.ENOSPC, False, "make space"),
        (errno.ESTALE, True, "check"),
        (errno.EIO, True, "check"),
    ],
)
def test_failures_of_the_disk(store, tmp_path, monkeypatch, code, is_transient, remedy):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    calls = [
        lambda: store.put("a", b"1"),
        lambda: store.put_if_absent("a", b"1"),
        lambda: store.put_if_match("a", b"1", None),
        lambda: store.open_output("a").__enter__().write(b"1" * 5_000_000),
    ]
    monkeypatch.setattr(files, "write_all", fail)
    monkeypatch.setattr(os, "fdopen", fail)
    for call in calls:
        with pytest.raises(StoreError, match=remedy) as caught:
            call()
        assert caught.value.is_transient is is_transient
    monkeypatch.undo()
    assert list(store.list()) == []


def test_a_lock_left_by_the_dead_locks_nobody_out(store, tmp_path):
    (tmp_path / ".a.lock").touch()
    assert store.put_if_match("a", b"1", None)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_objects_are_as_readable_as_the_umask_says(store, tmp_path):
    before = os.umask(0o022)
    try:
        store.put_if_absent("a", b"1")
        store.put_if_match("b", b"1", None)
        with store.open_output("c"):
            pass
    finally:
        os.umask(before)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in "abc"} == {0o644}


def test_long_names_have_room_for_a_temporary_one(store):
    for name in ("x" * 255, "é" * 127, "😈" * 63):
        assert store.put_if_absent(name, b"1")
        assert store.read(name) == b"1"


def test_names_that_no_file_can_have_need_not_be_deleted(store):
    store.put_if_absent("file", b"x")
    store.delete(["x" * 300, "file/below", "file"])
    assert store.head("file") is None


def test_links_to_directories_are_not_followed(store, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path)
    store.put("a", b"1")
    assert [info.path for info in store.list()] == ["a"]
    assert repr(store) == f"LocalStore({str(tmp_path)!r})"
    assert isinstance(store, LocalStore)


def test_lock_that_its_holder_never_gives_back(tmp_path, monkeypatch):
    """A process that hangs while it replaces `_last_checkpoint` must not hang all others."""
    monkeypatch.setattr(files, "LOCK_LIMIT", 0.3, raising=False)
    store = LocalStore(str(tmp_path))
    assert store.put_if_match("_last_checkpoint", b"1", None)
    _, tag = store.read_tagged("_last_checkpoint")
    lock = os.open(lock_name(str(tmp_path / "_last_checkpoint")), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = Background(lambda: store.put_if_match("_last_checkpoint", b"2", tag))
        with pytest.raises(StoreError, match="_last_checkpoint") as failure:
            waiting.result(5)
        assert failure.value.is_transient
        assert "fuser" in failure.value.remedy
    finally:
        os.close(lock)
    assert store.put_if_match("_last_checkpoint", b"3", tag)
    assert store.read("_last_checkpoint") == b"3"


@pytest.mark.parametrize("key", ["link", "folder/secret", "pipe", "real"])
def test_what_is_no_file_of_the_table_leads_nowhere(tmp_path, key):
    """Whoever can put a link into a table's folder must not have readers read another file."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "real").mkdir(parents=True)
    (root / "link").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside, target_is_directory=True)
    os.mkfifo(root / "pipe")
    store = LocalStore(str(root))
    for call in (store.read, store.open_input):
        with pytest.raises(StoreError):
            call(key)
    assert store.head(key) is None


def test_nothing_is_written_or_deleted_through_a_link(tmp_path):
    """What lies behind it is not the table's; what was written there could not be read again."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "victim").write_bytes(b"victim")
    before = list(outside.iterdir())
    (root / "folder").symlink_to(outside, target_is_directory=True)
    (root / "loop").symlink_to(root / "loop")
    store = LocalStore(str(root))

    def stream() -> None:
        with store.open_output("folder/new") as output:
            output.write(b"x")

    for write in (
        lambda: store.put("folder/new", b"x"),
        lambda: store.put("folder/deep/new", b"x"),
        lambda: store.put_if_absent("folder/new", b"x"),
        lambda: store.put_if_match("folder/new", b"x", None),
        lambda: store.move_aside("folder/victim", "mine"),
        stream,
    ):
        with pytest.raises(StoreError, match="folder"):
            write()
    store.delete(["folder/victim", "folder/victim/below", "loop/x"])
    assert store.remove_stale_temps("folder", 0) == 0
    assert [info.path for info in store.list()] == store.folders() == []
    assert list(outside.iterdir()) == before


def test_a_root_may_be_reached_by_a_link(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "root")
    store = LocalStore(str(tmp_path / "link"))
    store.put("a/b", b"1")
    assert store.read("a/b") == b"1"
    assert store.head("a/b").size == 1
    with store.open_input("a/b") as file:
        assert file.read() == b"1"
    other, key = store.resolve((tmp_path / "link" / "a" / "b").as_uri())
    assert other.read(key) == b"1"
