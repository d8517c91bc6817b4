"""Objects as files: plain system calls, because the small write is the hot path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from deltasql.errors import StoreError
from deltasql.objectstore.store import (
    ObjectInfo,
    ObjectStore,
    check_key,
    missing,
    open_store,
    split_uri,
)

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# The data and the size; times may be lost.
_sync = getattr(os, "fdatasync", os.fsync)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class LocalStore:
    """A directory; it is made when the first object is put there."""

    __slots__ = ("_base", "_root")

    def __init__(self, root: str) -> None:
        self._root = Path(os.path.normpath(root))
        self._base = str(self._root).rstrip("/") + "/"

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    @property
    def location(self) -> str:
        return self._root.as_uri()

    def put(self, path: str, data: bytes | memoryview | pa.Buffer) -> None:
        # Under its own name at once: no one knows the name before the commit that needs the
        # whole file, and a temporary name and a rename cost a quarter more.
        full = self._base + check_key(path)
        directory = full.rpartition("/")[0]
        try:
            descriptor = self._create(full, directory)
            try:
                _write_all(descriptor, data)
                _sync(descriptor)
            except BaseException:
                Path(full).unlink(missing_ok=True)
                raise
            finally:
                os.close(descriptor)
            _sync_directory(directory)
        except OSError as error:
            raise _failed("write", path, error) from error

    def _create(self, full: str, directory: str) -> int:
        try:
            return os.open(full, _CREATE, 0o666)
        except FileNotFoundError:
            _make_directory(Path(directory))
            return os.open(full, _CREATE, 0o666)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        try:
            with (self._root / check_key(path)).open("rb") as file:
                file.seek(offset)
                return file.read(-1 if length is None else length)
        except OSError as error:
            raise self._lost("read", path, error) from error

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:  # noqa: ARG002
        try:
            return pa.OSFile(self._base + check_key(path), "rb")
        except OSError as error:
            raise self._lost("read", path, error) from error

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                (self._root / check_key(path)).unlink(missing_ok=True)
            except OSError as error:
                raise _failed("delete", path, error) from error

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        top = self._root / check_key(prefix.rstrip("/")) if prefix else self._root
        for directory, names, files in os.walk(top):
            names.sort()
            for name in sorted(files):
                full = Path(directory, name)
                try:
                    found = full.stat()
                except FileNotFoundError:
                    continue  # deleted since
                key = str(full)[len(self._base) :]
                yield ObjectInfo(key, found.st_size, found.st_mtime_ns // 1_000_000)

    def size(self, path: str) -> int:
        try:
            return (self._root / check_key(path)).stat().st_size
        except OSError as error:
            raise self._lost("read", path, error) from error

    def resolve(self, uri: str) -> tuple[ObjectStore, str]:
        root, key = split_uri(uri)
        if root == "file:///":
            return LocalStore("/"), key
        return open_store(root), key

    def _lost(self, verb: str, path: str, error: OSError) -> StoreError:
        if isinstance(error, FileNotFoundError):
            return missing(path, self.location)
        return _failed(verb, path, error)


def _write_all(descriptor: int, data: bytes | memoryview | pa.Buffer) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _make_directory(directory: Path) -> None:
    """Make it and what it lies in, so that a power loss doesn't take them away again."""
    if directory.is_dir():
        return
    if not directory.parent.exists():
        _make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    _sync_directory(str(directory.parent))


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(verb: str, path: str, error: OSError) -> StoreError:
    return StoreError(
        f"can't {verb} the object {path!r}",
        cause=error.strerror or str(error),
        remedy="check the directory's permissions and free space",
        path=path,
    )
