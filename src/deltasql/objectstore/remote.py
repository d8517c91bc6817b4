"""Objects in S3, GCS and Azure, through obstore."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError
from obstore.store import from_url

from deltasql.errors import ConfigError, StoreError
from deltasql.objectstore.store import (
    ObjectInfo,
    ObjectStore,
    check_key,
    missing,
    open_store,
    public,
    split_uri,
)

# obstore takes the HTTP client's options apart from the store's own.
_CLIENT = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "timeout",
    "user_agent",
}
_SECRET = re.compile(r"\?[^\s\"')]+")
_BATCH = 1000


class RemoteStore:
    """A bucket, or a prefix of one."""

    __slots__ = ("_location", "_options", "_store")

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location = public(location).rstrip("/")
        self._options = dict(options)
        client, config = {}, {}
        for name, value in options.items():
            bare = name.lower().removeprefix("aws_").removeprefix("azure_").removeprefix("google_")
            if bare in _CLIENT:
                client[bare] = value
            else:
                config[name] = value
        try:
            self._store: Any = from_url(
                location,
                config=config or None,
                client_options=client or None,  # type: ignore[arg-type]
            )
        except (BaseError, ValueError) as error:
            raise ConfigError(
                f"can't open the object store {self._location}",
                cause=_clean(error),
                remedy="check the location and its options (credentials, region, endpoint)",
            ) from None

    def __repr__(self) -> str:
        return f"RemoteStore({self._location!r})"

    @property
    def location(self) -> str:
        return self._location

    def put(self, path: str, data: bytes | memoryview | pa.Buffer) -> None:
        with self._calling("write", path):
            obstore.put(self._store, check_key(path), memoryview(data).cast("B"))

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

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        below = check_key(prefix.rstrip("/")) if prefix else None
        with self._calling("list", prefix):
            for chunk in obstore.list(self._store, below):
                for item in chunk:
                    modified = int(item["last_modified"].timestamp() * 1000)
                    yield ObjectInfo(item["path"], item["size"], modified)

    def size(self, path: str) -> int:
        with self._calling("read", path):
            return int(obstore.head(self._store, check_key(path))["size"])

    def resolve(self, uri: str) -> tuple[ObjectStore, str]:
        root, key = split_uri(uri)
        same = root.partition(":")[0].rstrip("a") == self._location.partition(":")[0].rstrip("a")
        # Credentials go to the kind of store that they are for, and to no other.
        return open_store(root, self._options if same else None), key

    @contextmanager
    def _calling(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise missing(path, self._location) from None
        except (BaseError, OSError, ValueError) as error:
            raise StoreError(
                f"can't {verb} the object {path!r} in {self._location}",
                cause=_clean(error),
                remedy="check the store's credentials and that it can be reached",
                path=path,
            ) from None


class _Ranges:
    """An object as a file whose every read is one request: Arrow merges small reads itself."""

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


def _clean(error: Exception) -> str:
    """The message without the query of a signed URL, nor obstore's debug dump."""
    return _SECRET.sub("?…", str(error).partition("\n\nDebug source")[0])
