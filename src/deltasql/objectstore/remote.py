"""Objects in S3, GCS and Azure, through obstore."""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from deltasql.errors import ConfigError, StoreError
from deltasql.objectstore.failures import (
    clean,
    is_bucket_missing,
    missing,
    remote_failure,
    told_panic,
)
from deltasql.objectstore.names import check_key, is_hidden, is_temporary
from deltasql.objectstore.output import Output, publishing
from deltasql.objectstore.sources import Sources
from deltasql.objectstore.store import (
    Bytes,
    Item,
    ObjectInfo,
    ObjectStore,
    PutChain,
    open_store,
    public,
)
from deltasql.objectstore.upload import Upload
from deltasql.secrecy import discreet, raise_alone
from deltasql.settings.object_store import SCHEMES, parse_options

_BATCH = 1000
# With only one, they fall behind the chain, which must then wait for them at its end.
_BESIDE = 2


class RemoteStore:
    """A bucket, or a prefix of one."""

    __slots__ = ("_kind", "_location", "_options", "_others", "_sources", "_store")

    @discreet
    def __init__(
        self, location: str, options: Mapping[str, Any], sources: Sources | None = None
    ) -> None:
        self._location = public(location).rstrip("/")
        self._kind = SCHEMES[location.partition(":")[0].lower()]
        self._options = dict(options)
        self._sources = sources or Sources()
        self._others: dict[str, ObjectStore] = {}
        parsed = parse_options(options, self._kind)
        given = {"config": parsed.config, "client_options": parsed.client}
        if self._kind != "memory":
            given["retry_config"] = parsed.retry
        try:
            opened: Any = from_url
            self._store = opened(location, **{name: value or None for name, value in given.items()})
        except BaseException as error:
            told = told_panic(error)
            if not isinstance(told, BaseError | ValueError):
                raise
            raise_alone(
                ConfigError(
                    f"can't open the object store {self._location}",
                    cause=parsed.redact(clean(told)),
                    remedy="check the location and its options (credentials, region, endpoint)",
                )
            )

    def __repr__(self) -> str:
        return f"RemoteStore({self._location!r})"

    @property
    def location(self) -> str:
        return self._location

    @property
    def is_local(self) -> bool:
        return False

    def put(self, path: str, data: Bytes) -> None:
        with self._writing(path):
            obstore.put(self._store, check_key(path), memoryview(data).cast("B"))

    def put_if_absent(self, path: str, data: Bytes) -> bool:
        with self._writing(path):
            try:
                self._put(check_key(path), data, "create")
            except AlreadyExistsError:
                return False
        return True

    def put_many_if_absent(self, items: Sequence[Item], beside: Sequence[Item] = ()) -> PutChain:
        done: list[bool] = []
        others: list[Future[bool]] = []
        failure: StoreError | None = None
        # The chain waits for nothing beside it, which would take half of its time.
        with ThreadPoolExecutor(_BESIDE) as pool:
            for path, data in items:
                try:
                    done.append(self.put_if_absent(path, data))
                except StoreError as error:
                    failure = error
                    break
                if not done[-1]:
                    break
                if beside:
                    others.append(pool.submit(self.put_if_absent, *beside[len(others)]))
        whole = len(done)
        for place, other in enumerate(others):
            problem = other.exception()
            if isinstance(problem, StoreError):
                if place < whole:
                    failure, whole = problem, place
            elif problem is not None:
                raise problem
        if failure is not None:
            return PutChain(whole, failure=failure)
        return PutChain(sum(done), exists=not all(done))

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        try:
            with self._calling("read", path):
                found = obstore.get(self._store, check_key(path))
                # GCS asks for the version, the others for the etag.
                versions = {name: found.meta.get(name) for name in ("e_tag", "version")}
                tag = json.dumps({name: value for name, value in versions.items() if value})
                return bytes(found.bytes()), tag
        except FileNotFoundError:
            return None

    def put_if_match(self, path: str, data: Bytes, tag: str | None) -> bool:
        if tag is None:
            return self.put_if_absent(path, data)
        with self._writing(path):
            try:
                self._put(check_key(path), data, json.loads(tag))
            except (AlreadyExistsError, PreconditionError):
                return False
            except FileNotFoundError as error:
                if is_bucket_missing(error):
                    raise
                return False
        return True

    def _put(self, path: str, data: Bytes, mode: Any) -> None:
        obstore.put(self._store, path, memoryview(data).cast("B"), mode=mode, use_multipart=False)

    @contextmanager
    def open_output(self, path: str) -> Iterator[Output]:
        upload = Upload(self._store, check_key(path))

        def send(piece: memoryview) -> None:
            with self._writing(path):
                upload.send(piece)

        def publish() -> bool:
            with self._writing(path):
                return upload.publish()

        try:
            with publishing(send, publish) as output:
                yield output
        finally:
            with suppress(StoreError), self._writing(path):
                upload.discard()

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        check_key(path)
        with self._calling("read", path):
            if length is None and not offset:
                return bytes(obstore.get(self._store, path).bytes())
            size = self.size(path) - offset if length is None else length
            return bytes(obstore.get_range(self._store, path, start=offset, length=size))

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        return pa.PythonFile(_Ranges(self, path, self.size(path) if size is None else size), "r")

    def delete(self, paths: Iterable[str]) -> None:
        keys = [check_key(path) for path in paths]
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            try:
                with self._calling("delete", batch[0]):
                    obstore.delete(self._store, batch)
            except FileNotFoundError:
                self._delete_singly(batch)

    def _delete_singly(self, keys: list[str]) -> None:
        for key in keys:
            try:
                with self._calling("delete", key):
                    obstore.delete(self._store, key)
            except FileNotFoundError:
                continue

    def move_aside(self, path: str, new_path: str) -> bool:
        with self._calling("move", path):
            try:
                obstore.copy(self._store, check_key(path), check_key(new_path), overwrite=False)
            except AlreadyExistsError:
                return False
        self.delete([path])
        return True

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        # Collected and sorted, because directory buckets and some servers have their own order.
        found = [info for info in self._listed(prefix, start_after) if not is_hidden(info.path)]
        return iter(sorted(found, key=lambda info: info.path))

    def _listed(self, prefix: str, start_after: str | None) -> Iterator[ObjectInfo]:
        below = check_key(prefix.rstrip("/")) if prefix else None
        with self._calling("list", prefix):
            for chunk in obstore.list(self._store, below, offset=start_after or None):
                for item in chunk:
                    if start_after is None or item["path"] > start_after:
                        yield _info(item)

    def folders(self, prefix: str = "") -> builtins.list[str]:
        below = check_key(prefix.rstrip("/")) if prefix else None
        with self._calling("list", prefix):
            return sorted(obstore.list_with_delimiter(self._store, below)["common_prefixes"])

    def head(self, path: str) -> ObjectInfo | None:
        try:
            with self._calling("read", path):
                return _info(obstore.head(self._store, check_key(path)))
        except FileNotFoundError:
            return None

    def size(self, path: str) -> int:
        found = self.head(path)
        if found is None:
            raise missing(path, self._location)
        return found.size

    def remove_stale_temps(self, prefix: str, older_than_ms: int) -> int:
        limit = time.time_ns() // 1_000_000 - older_than_ms
        stale = [
            info.path
            for info in self._listed(prefix, None)
            if is_temporary(info.path) and info.modified <= limit
        ]
        self.delete(stale)
        return len(stale)

    def resolve(self, uri: str) -> tuple[ObjectStore, str]:
        found = self._sources.find(uri, self._location)
        if found.own:
            return self, found.key
        # Only the key of a place has one spelling: the bucket is as the log writes it.
        root = "/".join(uri.split("/", 3)[:3])
        if root not in self._others:
            self._others[root] = open_store(root, self._options)
        return self._others[root], found.place.split("/", 3)[3] + found.key

    def _calling(self, verb: str, path: str) -> _Calling:
        return _Calling(self._location, verb, path)

    def _writing(self, path: str) -> _Calling:
        """If a write finds something missing, it is not the object."""
        return _Calling(self._location, "write", path)


class _Calling:
    """A call of the client, whose failures become ours.

    A generator would not do: the library's frame around it keeps the client's error, whose text may
    have a signed address, as a variable.
    """

    __slots__ = ("_location", "_path", "_verb")

    def __init__(self, location: str, verb: str, path: str) -> None:
        self._location = location
        self._verb = verb
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ours = None if error is None else self._failure(error)
        del error, trace
        if ours is not None:
            raise_alone(ours)

    def _failure(self, error: BaseException) -> StoreError | None:
        told = told_panic(error)
        if isinstance(told, FileNotFoundError) and self._verb != "write":
            if not is_bucket_missing(told):
                return missing(self._path, self._location)
        elif not isinstance(told, BaseError | OSError | ValueError):
            return None
        return remote_failure(self._verb, self._path, self._location, told)


class _Ranges:
    """An object as a file; each read is one request, since Arrow merges small reads itself."""

    def __init__(self, store: RemoteStore, path: str, size: int) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._at = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        left = self._size - self._at
        length = left if count < 0 else min(count, left)
        if length <= 0:
            return b""
        data = self._store.read(self._path, offset=self._at, length=length)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        self.closed = True


def _info(item: Any) -> ObjectInfo:
    return ObjectInfo(item["path"], item["size"], int(item["last_modified"].timestamp() * 1000))
