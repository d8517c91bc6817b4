"""An object store that fails on request: by a script, or at random from a seed.

    store = FaultyStore(inner, scripted({2: Fault.AFTER}))            # the third call
    store = FaultyStore(inner, seeded(7, rate=0.2))                    # a fifth of all calls
    store = FaultyStore(inner, lambda call: Fault.BEFORE if call.verb == "read" else None)

Calls are counted from 0, in the order in which they start. `put_many_if_absent` counts once per
object. What happened is in `calls`.
"""

from __future__ import annotations

import builtins
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from deltasql.errors import StoreError
from deltasql.objectstore import ObjectInfo, ObjectStore, Output, PutChain

T = TypeVar("T")

Bytes: TypeAlias = "bytes | memoryview | pa.Buffer"


class Fault(Enum):
    """What goes wrong with a call."""

    BEFORE = "an error, and nothing was done"
    AFTER = "an error, though it was done: the response got lost"
    SLOW = "it takes longer"
    EXISTS = "a write is done and answers that the object exists, as after a client's own retry"
    PARTIAL_LIST = "a listing ends early, without an error"
    TRUNCATED_READ = "a read gives the first part of the bytes only"


_WRITES = frozenset({"put", "put_if_absent", "put_if_match", "open_output", "delete", "move_aside"})
_EVERYWHERE = frozenset({Fault.BEFORE, Fault.SLOW})
_FITTING = {
    Fault.AFTER: _WRITES,
    Fault.EXISTS: frozenset({"put_if_absent", "put_if_match", "open_output"}),
    Fault.PARTIAL_LIST: frozenset({"list"}),
    Fault.TRUNCATED_READ: frozenset({"read", "read_tagged", "open_input"}),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the store: its number, the method, the key, and what was injected."""

    number: int
    verb: str
    path: str
    fault: Fault | None = None


Schedule: TypeAlias = Callable[[Call], Fault | None]


def fits(fault: Fault, verb: str) -> bool:
    """Whether the fault applies to the method; otherwise it is not injected."""
    return fault in _EVERYWHERE or verb in _FITTING[fault]


def scripted(faults: Mapping[int, Fault] | Sequence[Fault | None]) -> Schedule:
    """The fault of each call, by number."""
    script = faults if isinstance(faults, Mapping) else dict(enumerate(faults))
    return lambda call: script.get(call.number)


def seeded(seed: int, *, rate: float = 0.1, faults: Iterable[Fault] = tuple(Fault)) -> Schedule:
    """Random faults, the same for the same calls: threads don't change what a call gets."""
    kinds = sorted(faults, key=lambda fault: fault.name)

    def choose(call: Call) -> Fault | None:
        chance = random.Random(f"{seed}/{call.number}/{call.verb}")
        fitting = [fault for fault in kinds if fits(fault, call.verb)]
        return chance.choice(fitting) if fitting and chance.random() < rate else None

    return choose


class FaultyStore:
    """A store in front of another one, with faults."""

    def __init__(
        self,
        inner: ObjectStore,
        schedule: Schedule = lambda _: None,
        *,
        delay: float = 0.05,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.inner = inner
        self.schedule = schedule
        self.calls: list[Call] = []
        self._delay = delay
        self._sleep = sleep
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"FaultyStore({self.inner!r})"

    @property
    def injected(self) -> list[Call]:
        """The calls that met a fault."""
        return [call for call in self.calls if call.fault is not None]

    @property
    def location(self) -> str:
        return self.inner.location

    @property
    def is_local(self) -> bool:
        return self.inner.is_local

    def put(self, path: str, data: Bytes) -> None:
        self._write("put", path, lambda: self.inner.put(path, data))

    def put_if_absent(self, path: str, data: Bytes) -> bool:
        return self._write("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def put_many_if_absent(
        self, items: Sequence[tuple[str, Bytes]], beside: Sequence[tuple[str, Bytes]] = ()
    ) -> PutChain:
        whole = 0
        try:
            for place, (path, data) in enumerate(items):
                if not self.put_if_absent(path, data):
                    return PutChain(whole, exists=True)
                if beside:
                    self.put_if_absent(*beside[place])
                whole += 1
        except StoreError as error:
            return PutChain(whole, failure=error)
        return PutChain(whole)

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        fault = self._begin("read_tagged", path)
        found = self.inner.read_tagged(path)
        if found is not None and fault is Fault.TRUNCATED_READ:
            return _first_part(found[0]), found[1]
        return found

    def put_if_match(self, path: str, data: Bytes, tag: str | None) -> bool:
        return self._write("put_if_match", path, lambda: self.inner.put_if_match(path, data, tag))

    @contextmanager
    def open_output(self, path: str) -> Iterator[Output]:
        fault = self._begin("open_output", path)
        with self.inner.open_output(path) as sink:
            yield sink
        if fault is Fault.AFTER:
            raise _failure("open_output", path)
        if fault is Fault.EXISTS:
            sink.created = False

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        fault = self._begin("read", path)
        data = self.inner.read(path, offset=offset, length=length)
        return _first_part(data) if fault is Fault.TRUNCATED_READ else data

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        if self._begin("open_input", path) is Fault.TRUNCATED_READ:
            return pa.BufferReader(_first_part(self.inner.read(path)))
        return self.inner.open_input(path, size=size)

    def delete(self, paths: Iterable[str]) -> None:
        keys = list(paths)
        self._write("delete", keys[0] if keys else "", lambda: self.inner.delete(keys))

    def move_aside(self, path: str, new_path: str) -> bool:
        return self._write("move_aside", path, lambda: self.inner.move_aside(path, new_path))

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        fault = self._begin("list", prefix)
        found = self.inner.list(prefix, start_after=start_after)
        if fault is Fault.PARTIAL_LIST:
            whole = [*found]
            return iter(whole[: len(whole) // 2])
        return found

    def folders(self, prefix: str = "") -> builtins.list[str]:
        self._begin("folders", prefix)
        return self.inner.folders(prefix)

    def head(self, path: str) -> ObjectInfo | None:
        self._begin("head", path)
        return self.inner.head(path)

    def size(self, path: str) -> int:
        self._begin("size", path)
        return self.inner.size(path)

    def remove_stale_temps(self, prefix: str, older_than_ms: int) -> int:
        self._begin("remove_stale_temps", prefix)
        return self.inner.remove_stale_temps(prefix, older_than_ms)

    def resolve(self, uri: str) -> tuple[ObjectStore, str]:
        return self.inner.resolve(uri)

    def _write(self, verb: str, path: str, write: Callable[[], T]) -> T:
        fault = self._begin(verb, path)
        answer: Any = write()
        if fault is Fault.AFTER:
            raise _failure(verb, path)
        return False if fault is Fault.EXISTS else answer  # type: ignore[return-value]

    def _begin(self, verb: str, path: str) -> Fault | None:
        with self._lock:
            call = Call(len(self.calls), verb, path)
            fault = self.schedule(call)
            if fault is not None and not fits(fault, verb):
                fault = None
            self.calls.append(replace(call, fault=fault))
        if fault is Fault.SLOW:
            self._sleep(self._delay)
        if fault is Fault.BEFORE:
            raise _failure(verb, path)
        return fault


def _first_part(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _failure(verb: str, path: str) -> StoreError:
    return StoreError(
        f"can't {verb} the object {path!r}",
        cause="a fault was injected",
        remedy="try again",
        path=path,
        is_transient=True,
    )
