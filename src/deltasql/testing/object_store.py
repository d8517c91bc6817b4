"""The contract of an object store, for pytest.

A subclass provides the fixture `object_store`: a store that is empty when the test begins. Stores
opened later on the same location must see the same objects.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import StoreError, ValidationError
from deltasql.objectstore import ObjectNotFoundError, ObjectStore, PutChain

T = TypeVar("T")

LOG = "_delta_log"
ODD_KEYS = [
    "plain",
    "a b/c d",
    "a%20b/100%",
    "p=a%3Ab/x+y=z.parquet",
    "é/😈/日本",
    "deep/er/and/deep/er/still.json",
    "a-b",
    "a/b",
    "~tilde_-.,;!@$&'()",
    "_delta_log/.hidden",
    "x" * 180,
]
BIG = 20 << 20


def version(number: int) -> str:
    """The key of a commit file."""
    return f"{LOG}/{number:020}.json"


def at_once(count: int, task: Callable[[int], T]) -> list[T]:
    """The results of the task in that many threads that start at the same moment."""
    barrier = threading.Barrier(count)

    def run(number: int) -> T:
        barrier.wait()
        return task(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class PutContract:
    """Objects appear complete, once, in order."""

    racers: ClassVar[int] = 8
    rounds: ClassVar[int] = 10
    # Some servers check the name before they complete a multipart upload, not during it.
    big_objects_race_safely: ClassVar[bool] = True

    def test_put_if_absent_never_overwrites(self, object_store: ObjectStore) -> None:
        key = version(0)
        assert object_store.put_if_absent(key, b"first") is True
        assert object_store.put_if_absent(key, b"second") is False
        assert object_store.put_if_absent(key, b"first") is False
        assert object_store.read(key) == b"first"

    @pytest.mark.parametrize("data", [b"", memoryview(b"abc"), pa.py_buffer(b"abc")])
    def test_any_bytes(self, object_store: ObjectStore, data: Any) -> None:
        assert object_store.put_if_absent("a", data)
        object_store.put("b", data)
        assert object_store.put_if_match("c", data, None)
        assert {object_store.read(key) for key in "abc"} == {bytes(data)}

    def test_racing_puts_have_one_winner(self, object_store: ObjectStore) -> None:
        for number in range(self.rounds):
            key = version(number)

            def put(racer: int, key: str = key) -> bool:
                return object_store.put_if_absent(key, b"%d" % racer * 1000)

            won = at_once(self.racers, put)
            assert won.count(True) == 1, won
            assert object_store.read(key) == b"%d" % won.index(True) * 1000

    def test_put_many_is_in_order(self, object_store: ObjectStore) -> None:
        items = [(version(number), b"%d" % number) for number in range(30)]
        seen: list[int] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.is_set():
                seen.append(self._highest_without_gap(object_store))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            assert object_store.put_many_if_absent(items) == PutChain(30)
        finally:
            stop.set()
            watcher.join()
        assert seen == sorted(seen)
        assert [object_store.read(key) for key, _ in items] == [data for _, data in items]
        assert object_store.put_many_if_absent([]) == PutChain(0)

    def _highest_without_gap(self, store: ObjectStore) -> int:
        # A listing is no snapshot, so everything before its last entry is checked.
        names = [info.path for info in store.list(LOG)]
        for earlier in range(int(names[-1][-25:-5]) if names else 0):
            assert store.head(version(earlier)) is not None
        return len(names)

    def test_put_many_stops_at_what_exists(self, object_store: ObjectStore) -> None:
        object_store.put_if_absent(version(2), b"theirs")
        items = [(version(number), b"ours") for number in range(5)]
        assert object_store.put_many_if_absent(items) == PutChain(2, exists=True)
        assert [info.path for info in object_store.list(LOG)] == [version(n) for n in range(3)]
        assert object_store.read(version(2)) == b"theirs"
        assert object_store.put_many_if_absent(items[2:]) == PutChain(0, exists=True)

    def test_put_many_of_more_than_a_batch(self, object_store: ObjectStore) -> None:
        object_store.put_if_absent(version(230), b"theirs")
        items = [(version(number), b"ours") for number in range(240)]
        assert object_store.put_many_if_absent(items) == PutChain(230, exists=True)
        assert len(list(object_store.list(LOG))) == 231

    def test_put_many_with_others_beside_them(self, object_store: ObjectStore) -> None:
        object_store.put_if_absent(f"{LOG}/1.crc", b"older")
        object_store.put_if_absent(version(3), b"theirs")
        items = [(version(number), b"%d" % number) for number in range(5)]
        beside = [(f"{LOG}/{number}.crc", b"crc %d" % number) for number in range(5)]
        assert object_store.put_many_if_absent(items, beside) == PutChain(3, exists=True)
        found = {info.path: object_store.read(info.path) for info in object_store.list(LOG)}
        assert found == {
            **dict(items[:3]),
            version(3): b"theirs",
            beside[0][0]: b"crc 0",
            beside[1][0]: b"older",
            beside[2][0]: b"crc 2",
        }
        assert object_store.put_many_if_absent(items[4:], beside[4:]) == PutChain(1)
        assert object_store.read(beside[4][0]) == b"crc 4"

    def test_tags_let_one_writer_through(self, object_store: ObjectStore) -> None:
        key = f"{LOG}/_last_checkpoint"
        assert object_store.read_tagged(key) is None
        assert object_store.put_if_match(key, b"10", None) is True
        assert object_store.put_if_match(key, b"11", None) is False
        first = object_store.read_tagged(key)
        assert first is not None
        assert first[0] == b"10"
        assert object_store.put_if_match(key, b"20", first[1]) is True
        assert object_store.put_if_match(key, b"15", first[1]) is False
        assert object_store.read(key) == b"20"
        second = object_store.read_tagged(key)
        assert second is not None
        object_store.delete([key])
        assert object_store.put_if_match(key, b"30", second[1]) is False
        assert object_store.head(key) is None

    def test_racing_tags_lose_no_update(self, object_store: ObjectStore) -> None:
        object_store.put_if_match("counter", b"0", None)

        def count(_: int) -> int:
            for _attempt in range(1000):
                found = object_store.read_tagged("counter")
                assert found is not None
                data = b"%d" % (int(found[0]) + 1)
                if object_store.put_if_match("counter", data, found[1]):
                    return 1
            return 0

        for _ in range(3):
            assert at_once(4, count) == [1] * 4
        assert object_store.read("counter") == b"12"


class OutputContract:
    """Big objects, in bounded memory."""

    big_objects_race_safely: ClassVar[bool] = True

    @pytest.mark.parametrize("size", [0, 1000, BIG])
    def test_output_appears_at_the_end(self, object_store: ObjectStore, size: int) -> None:
        key = f"{LOG}/{10:020}.checkpoint.parquet"
        piece = bytes(range(250)) * 4
        with object_store.open_output(key) as sink:
            for _ in range(size // len(piece)):
                assert sink.write(piece) == len(piece)
            assert sink.tell() == size // len(piece) * len(piece)
            sink.close()
            assert object_store.head(key) is None
            assert list(object_store.list()) == []
        assert sink.created is True
        assert object_store.read(key) == piece * (size // len(piece))
        assert [info.path for info in object_store.list()] == [key]
        assert object_store.remove_stale_temps(LOG, 0) == 0

    @pytest.mark.parametrize("size", [10, BIG])
    def test_failed_output_leaves_nothing(self, object_store: ObjectStore, size: int) -> None:
        def write_half() -> None:
            with object_store.open_output("big") as sink:
                sink.write(b"x" * size)
                raise KeyError("the caller's own")

        with pytest.raises(KeyError):
            write_half()
        assert list(object_store.list()) == []
        assert object_store.remove_stale_temps("", 0) == 0

    @pytest.mark.parametrize("size", [10, BIG])
    def test_output_never_overwrites(self, object_store: ObjectStore, size: int) -> None:
        object_store.put("big", b"theirs")
        with object_store.open_output("big") as sink:
            sink.write(b"x" * size)
        assert sink.created is False
        assert object_store.read("big") == b"theirs"
        assert [info.path for info in object_store.list()] == ["big"]
        assert object_store.remove_stale_temps("", 0) == 0

    def test_racing_outputs_are_whole(self, object_store: ObjectStore) -> None:
        size = 9 << 20

        def write(racer: int) -> bool | None:
            try:
                with object_store.open_output("big") as sink:
                    for _ in range(9):
                        sink.write(b"%d" % racer * (1 << 20))
            except StoreError:
                if self.big_objects_race_safely:
                    raise
                return False  # it saw that another one won, too
            return sink.created

        created = at_once(4, write)
        data = object_store.read("big")
        assert data == data[:1] * size
        assert created[int(data[:1])] is True
        if self.big_objects_race_safely:
            assert created.count(True) == 1

    def test_parquet_goes_there_and_back(self, object_store: ObjectStore) -> None:
        table = pa.table({"a": range(100_000), "b": ["x"] * 100_000})
        with (
            object_store.open_output("t.parquet") as sink,
            pq.ParquetWriter(sink, table.schema) as w,
        ):
            for batch in table.to_batches(max_chunksize=10_000):
                w.write_batch(batch)
        with object_store.open_input("t.parquet") as file:
            assert pq.read_table(file).equals(table)


class NameContract:
    """Keys, listings, and objects that don't exist."""

    def test_odd_keys(self, object_store: ObjectStore) -> None:
        for key in ODD_KEYS:
            assert object_store.put_if_absent(key, key.encode()), key
        for key in ODD_KEYS:
            assert object_store.read(key) == key.encode()
            found = object_store.head(key)
            assert found is not None
            assert (found.path, found.size) == (key, len(key.encode()))
        assert [info.path for info in object_store.list()] == sorted(ODD_KEYS)
        object_store.delete([*ODD_KEYS, "absent"])
        assert list(object_store.list()) == []

    def test_listing_in_order(self, object_store: ObjectStore) -> None:
        keys = ["a-b", "a/b", "a/c/d", "a0", "b", f"{LOG}/x", f"{LOG}x/y"]
        for key in keys:
            object_store.put(key, b"1")

        def listed(prefix: str = "", start_after: str | None = None) -> list[str]:
            found = object_store.list(prefix, start_after=start_after)
            return [info.path for info in found]

        assert listed() == sorted(keys)
        assert listed("a") == ["a/b", "a/c/d"]
        assert listed("a/") == ["a/b", "a/c/d"]
        assert listed(LOG) == [f"{LOG}/x"]
        assert listed("a", "a/b") == ["a/c/d"]
        assert listed("a", "a/b0") == ["a/c/d"]
        assert listed("", "a/c/d") == [key for key in sorted(keys) if key > "a/c/d"]
        assert listed("a", "z") == []
        assert listed("absent") == []

    def test_long_listing(self, object_store: ObjectStore) -> None:
        keys = [version(number) for number in range(1_050)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: object_store.put(key, b"1"), keys))
        assert [info.path for info in object_store.list(LOG)] == keys
        after = object_store.list(LOG, start_after=version(20))
        assert [info.path for info in after] == keys[21:]
        object_store.delete(keys)
        assert list(object_store.list()) == []

    def test_folders(self, object_store: ObjectStore) -> None:
        assert object_store.folders() == []
        for key in ["top", "a/b", "a/c/d", "a/c/e/f", "a b/100%/x", "é/p=a%3Ab/y", f"{LOG}/x"]:
            object_store.put(key, b"1")
        assert object_store.folders() == [LOG, "a", "a b", "é"]
        assert object_store.folders("a") == object_store.folders("a/") == ["a/c"]
        assert object_store.folders("a/c") == ["a/c/e"]
        assert object_store.folders("a b") == ["a b/100%"]
        assert object_store.folders("é") == ["é/p=a%3Ab"]
        assert object_store.folders("a/c/e") == object_store.folders("absent") == []

    def test_listing_says_size_and_time(self, object_store: ObjectStore) -> None:
        object_store.put("a", b"123")
        (listed,) = object_store.list()
        head = object_store.head("a")
        assert head is not None
        assert (listed.path, listed.size, object_store.size("a")) == ("a", 3, 3)
        # A head request returns whole seconds.
        assert abs(listed.modified - head.modified) <= 1000

    def test_parts_of_objects(self, object_store: ObjectStore) -> None:
        object_store.put("a", b"0123456789")
        assert object_store.read("a", offset=4) == b"456789"
        assert object_store.read("a", offset=4, length=3) == b"456"
        with object_store.open_input("a") as file:
            file.seek(7)
            assert file.read() == b"789"

    def test_moving_aside(self, object_store: ObjectStore) -> None:
        object_store.put("a", b"1")
        object_store.put("taken", b"2")
        assert object_store.move_aside("a", "taken") is False
        assert object_store.read("a") == b"1"
        assert object_store.move_aside("a", "aside/a") is True
        found = {info.path: object_store.read(info.path) for info in object_store.list()}
        assert found == {"aside/a": b"1", "taken": b"2"}
        with pytest.raises(ObjectNotFoundError):
            object_store.move_aside("a", "b")

    def test_what_is_missing(self, object_store: ObjectStore) -> None:
        assert object_store.head("x/y") is None
        assert object_store.read_tagged("x/y") is None
        object_store.delete(["x/y"])
        for call in (object_store.read, object_store.size, object_store.open_input):
            with pytest.raises(ObjectNotFoundError, match="x/y") as caught:
                call("x/y")
            assert isinstance(caught.value, StoreError)
            assert not caught.value.is_transient
            assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301

    @pytest.mark.parametrize("key", ["../a", "a/../b", "/a", "a//b", "", "a/./b", "a\0"])
    def test_no_key_leaves_the_root(self, object_store: ObjectStore, key: str) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: object_store.put(key, b""),
            lambda: object_store.put_if_absent(key, b""),
            lambda: object_store.put_many_if_absent([(key, b"")]),
            lambda: object_store.put_if_match(key, b"", None),
            lambda: object_store.open_output(key).__enter__(),
            lambda: object_store.read(key),
            lambda: object_store.head(key),
            lambda: object_store.delete([key]),
            lambda: object_store.move_aside(key, "b"),
            lambda: object_store.move_aside("b", key),
        ]
        for call in calls:
            with pytest.raises(ValidationError):
                call()


class ObjectStoreContract(PutContract, OutputContract, NameContract):
    """Everything that an object store must do, as tests."""
