"""The seam to object storage: what a store does, and how one is opened.

A key is the decoded, relative name of an object, `a=1/part-0.parquet`; it never leaves the
store's root.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from deltasql.errors import ConfigError, StoreError, ValidationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_REMOTE = frozenset({"s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "memory"})


class ObjectNotFoundError(StoreError, FileNotFoundError):
    """The store has no object of that name."""

    def __init__(self, problem: str, **details: Any) -> None:
        super().__init__(problem, **details)
        self.errno = errno.ENOENT


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing; `modified` is in milliseconds since 1970."""

    path: str
    size: int
    modified: int


class ObjectStore(Protocol):
    """A root and the objects below it."""

    @property
    def location(self) -> str:
        """The root as a URI, without credentials."""

    def put(self, path: str, data: bytes | memoryview | pa.Buffer) -> None:
        """Write an object whose name nothing else uses; durable when the call returns."""

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """An object's bytes, or `length` of them from `offset` on."""

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """The object for random access; whoever knows its size spares a remote store a request."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the objects; absent ones are as good as deleted."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The objects below a directory, at any depth."""

    def size(self, path: str) -> int:
        """An object's length in bytes."""

    def resolve(self, uri: str) -> tuple[ObjectStore, str]:
        """The store, with this one's options, and the key of an absolute, decoded URI."""


def open_store(location: str, options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store at a location: a path, `file:///…`, `s3://…`, `gs://…`, `az://…`, `abfss://…`.

    `options` are obstore's, for example `region`, `endpoint`, `access_key_id`, `allow_http`.
    """
    from deltasql.objectstore.local import LocalStore

    match = _SCHEME.match(location)
    if match is None:
        return LocalStore(str(Path(location).expanduser().absolute()))
    scheme = match[1].lower()
    if scheme == "file":
        return LocalStore(_local_path(unquote(location[5:]), location))
    if scheme not in _REMOTE:
        raise ConfigError(
            f"no object store answers to the scheme {scheme!r}",
            cause=f"the location is {public(location)}",
            remedy="use a path, file://, s3://, gs://, az:// or abfss://",
        )
    from deltasql.objectstore.remote import RemoteStore

    return RemoteStore(location, options or {})


def split_uri(uri: str) -> tuple[str, str]:
    """The root (`file:///` or the bucket's) and the key of an absolute, decoded URI."""
    scheme, _, rest = uri.partition(":")
    if scheme.lower() == "file":
        return "file:///", _local_path(rest, uri).lstrip("/")
    authority, _, key = rest.removeprefix("//").partition("/")
    return f"{scheme}://{authority}", key


def check_key(path: str) -> str:
    """The key itself; `ValidationError` when it could leave the root."""
    segments = path.split("/")
    if "" in segments or "." in segments or ".." in segments or "\0" in path:
        raise ValidationError(
            f"{path!r:.200} is not the key of an object",
            cause="a key is relative and has neither empty segments nor dots nor NUL",
            remedy="name the object by its path below the store's root",
        )
    return path


def public(location: str) -> str:
    """A location without what may be secret in it: user, password, query."""
    parts = urlsplit(location)
    # In abfss://container@account the part before the @ is no user.
    host = parts.netloc if parts.scheme.startswith("abfs") else parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def missing(path: str, location: str) -> ObjectNotFoundError:
    """The error for an object that is not there."""
    return ObjectNotFoundError(
        f"the object {path!r} does not exist",
        cause=f"nothing of that name is in {location}",
        remedy="restore it from a copy, or check that the location and the table belong together",
        path=path,
    )


def _local_path(rest: str, uri: str) -> str:
    """The path of `file:/a`, `file:///a` or `file://localhost/a`."""
    path = rest
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ConfigError(
                f"{uri!r:.200} names the host {host!r}",
                remedy="write local paths as file:///path",
            )
        path = slash + tail
    if not path.startswith("/"):
        raise ConfigError(
            f"{uri!r:.200} is not an absolute path", remedy="write local paths as file:///path"
        )
    return path
