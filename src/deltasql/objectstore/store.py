"""The interface to object storage: what a store does, and how one is opened.

A key is the decoded, relative name of an object, `a=1/part-0.parquet`; it never leaves the store's
root.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from deltasql.errors import ConfigError, StoreError
from deltasql.objectstore.output import Output
from deltasql.objectstore.sources import Sources
from deltasql.secrecy import discreet
from deltasql.settings.object_store import SCHEMES, parse_options

Bytes: TypeAlias = "bytes | memoryview | pa.Buffer"

Item: TypeAlias = "tuple[str, Bytes]"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing; `modified` is in milliseconds since 1970."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class PutChain:
    """How far a chain of puts came: `count` are durable, with what is beside them.

    The next one `exists`, or met a `failure` of the store.
    """

    count: int
    exists: bool = False
    failure: StoreError | None = None


class ObjectStore(Protocol):
    """A root and the objects below it."""

    @property
    def location(self) -> str:
        """The root as a URI, without credentials."""

    @property
    def is_local(self) -> bool:
        """Whether looking at an object is a system call, not a request."""

    def put(self, path: str, data: Bytes) -> None:
        """Write an object with a name that nothing else uses; durable when the call returns."""

    def put_if_absent(self, path: str, data: Bytes) -> bool:
        """Write an object unless one of that name exists; all or nothing, and durable.

        False says that one exists, whoever wrote it: after a lost response, the store's client
        retries by itself and finds its own bytes. The caller reads it back.
        """

    def put_many_if_absent(self, items: Sequence[Item], beside: Sequence[Item] = ()) -> PutChain:
        """`put_if_absent` of each in turn, each visible before the next, up to the first that
        exists or fails.

        Each may have an optional one beside it, which is written after it but in no particular
        order with the others, is kept if it exists, and may be truncated by a power loss. A failure
        of the store is returned, with how far the chain came.
        """

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """An object's bytes, and the tag of that content for `put_if_match`."""

    def put_if_match(self, path: str, data: Bytes, tag: str | None) -> bool:
        """Replace the object that has the tag, or with None put one if there is none.

        False says that someone else was faster, or that it was us and the response got lost.
        """

    def open_output(self, path: str) -> AbstractContextManager[Output]:
        """Write a big object in bounded memory: `with store.open_output(path) as sink:`.

        It appears, unless one of that name exists, when the block ends (see `Output.created`);
        an error in the block leaves nothing.
        """

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """An object's bytes, or `length` of them from `offset` on."""

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """The object for random access; passing its size saves a remote store a request."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the objects; missing ones count as deleted."""

    def move_aside(self, path: str, new_path: str) -> bool:
        """Rename an object within the store; False if the new name is taken."""

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """The objects below a directory, at any depth, by name; with a key, only those after it."""

    def folders(self, prefix: str = "") -> builtins.list[str]:
        """The keys of the directories directly below a directory, by name; links on a disk don't
        count.
        """

    def head(self, path: str) -> ObjectInfo | None:
        """What a listing would say about the object, or None if there is none."""

    def size(self, path: str) -> int:
        """An object's length in bytes."""

    def remove_stale_temps(self, prefix: str, older_than_ms: int) -> int:
        """Remove what dead writers left below a directory, by age; returns how many there were."""

    def resolve(self, uri: str) -> tuple[ObjectStore, str]:
        """The store, with this one's options, and the key of an absolute URI of the log.

        Raises `ValidationError` if it leads outside the root and the table's sources.
        """


@discreet
def open_store(
    location: str, options: Mapping[str, Any] | None = None, sources: Sources | None = None
) -> ObjectStore:
    """The store at a location: a path, `file:///…`, `s3://…`, `gs://…`, `az://…`, `abfss://…`.

    `options` are those of `docs/storage.md`, for example `s3.region`; see `options.py`. `sources`
    says where absolute paths may lead besides the location itself.
    """
    from deltasql.objectstore.local import LocalStore

    match = _SCHEME.match(location)
    scheme = match[1].lower() if match else "file"
    if scheme == "file":
        parse_options(options or {}, "local")
        path = Path(location).expanduser().absolute() if match is None else None
        root = str(path or _local_path(unquote(location[5:]), location))
        return LocalStore(root, options, sources)
    if scheme not in SCHEMES:
        raise ConfigError(
            f"there is no object store for the scheme {scheme!r}",
            cause=f"the location is {public(location)}",
            remedy="use a path, file://, s3://, gs://, az:// or abfss://",
        )
    from deltasql.objectstore.remote import RemoteStore

    return RemoteStore(location, options or {}, sources)


def public(location: str) -> str:
    """A location without its possible secrets: user, password, query."""
    parts = urlsplit(location)
    # In abfss://container@account the part before the @ is not a user.
    host = parts.netloc if parts.scheme.startswith("abfs") else parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _local_path(rest: str, uri: str) -> str:
    """The path of `file:/a`, `file:///a` or `file://localhost/a`."""
    path = rest
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host not in ("", "localhost"):
            # Without the user and password that it may have.
            named = host.rpartition("@")[2]
            raise ConfigError(
                f"{f'file://{named}{slash}{tail}'!r:.200} names the host {named!r}",
                remedy="write local paths as file:///path",
            )
        path = slash + tail
    if not path.startswith("/"):
        raise ConfigError(
            f"{uri!r:.200} is not an absolute path", remedy="write local paths as file:///path"
        )
    return path
