"""Objects as files: plain system calls, because small writes are the hot path."""

from __future__ import annotations

import builtins
import errno
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltasql.errors import StoreError
from deltasql.objectstore import files
from deltasql.objectstore.failures import local_failure, missing
from deltasql.objectstore.names import check_key, is_hidden, is_temporary, temporary_name
from deltasql.objectstore.output import Output, publishing
from deltasql.objectstore.sources import Sources
from deltasql.objectstore.store import Bytes, Item, ObjectInfo, ObjectStore, PutChain
from deltasql.places import LOCAL

# How many files are open at once, far below the limit of a process.
_BATCH = 64
_BUFFER = 1 << 20
# The errors of opening a link, a folder or a pipe.
_NO_FILE = frozenset({errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.ENXIO})


class LocalStore:
    """A directory, created when the first object is put there."""

    __slots__ = ("_base", "_options", "_root", "_sources")

    def __init__(
        self,
        root: str,
        options: Mapping[str, Any] | None = None,
        sources: Sources | None = None,
    ) -> None:
        self._root = Path(os.path.normpath(root))
        self._base = str(self._root).rstrip("/") + "/"
        self._options = dict(options or {})
        self._sources = sources or Sources()

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    @property
    def location(self) -> str:
        return self._root.as_uri()

    @property
    def is_local(self) -> bool:
        return True

    def put(self, path: str, data: Bytes) -> None:
        # Under its final name at once: nobody knows the name before the commit that needs the whole
        # file, and a temporary name and a rename cost a quarter more.
        full = self._target(path)
        try:
            self._write(full, data)
            files.sync_directory(_folder(full))
        except OSError as error:
            raise local_failure("write", path, error) from error

    def put_if_absent(self, path: str, data: Bytes) -> bool:
        put = self.put_many_if_absent([(path, data)])
        if put.failure is not None:
            raise put.failure
        return not put.exists

    def put_many_if_absent(self, items: Sequence[Item], beside: Sequence[Item] = ()) -> PutChain:
        done: list[bool] = []
        whole = 0
        failure: StoreError | None = None
        try:
            for start in range(0, len(items), _BATCH):
                self._put_batch(self._files(items[start : start + _BATCH]), done)
                # Nobody who waits for the chain should wait for these.
                self._put_batch(self._files(beside[whole : sum(done)]))
                whole = sum(done)
                if whole < len(done):
                    break
        except OSError as error:
            made = sum(done)
            failure = local_failure("write", items[min(made, len(items) - 1)][0], error)
            failure.__cause__ = error
            # One without what belongs beside it does not count yet.
            whole = whole if beside else made
        lost = self._sync_folders(full for full, _ in self._files(items[: len(done)]))
        if lost is not None:
            return PutChain(0, failure=lost)
        return PutChain(whole, exists=failure is None and whole < len(done), failure=failure)

    def _files(self, items: Iterable[Item]) -> builtins.list[Item]:
        return [(self._target(path), data) for path, data in items]

    def _sync_folders(self, names: Iterable[str]) -> StoreError | None:
        """Once for all: a journal keeps the order of links, so that after a power loss the
        surviving names are the first ones. Also if an object already existed: a caller that reads
        it back and reports success must not lose it, and its writer may have died before this.
        """
        for folder in {_folder(full) for full in names}:
            try:
                files.sync_directory(folder)
            except OSError as error:
                failure = local_failure("write", folder, error)
                failure.__cause__ = error
                return failure
        return None

    def _put_batch(
        self, pairs: builtins.list[Item], chain: builtins.list[bool] | None = None
    ) -> None:
        """Write all of them to disk under temporary names, then name them one after the other.

        A chain ends at the first that exists, and is told about each. Otherwise, existing ones are
        skipped, and nobody waits for the disk.
        """
        ready: list[tuple[str, str]] = []
        opened: list[int] = []
        try:
            for full, data in pairs:
                if os.path.lexists(full):
                    if chain is None:
                        continue
                    break
                name = temporary_name(full)
                opened.append(files.create(name))
                ready.append((name, full))
                files.write_all(opened[-1], data)
            files.sync_all(opened, waiting=chain is not None)
            _name_all(ready, chain)
            if chain is not None and all(chain) and len(opened) < len(pairs):
                chain.append(False)
        finally:
            for descriptor in opened:
                os.close(descriptor)
            for name, _ in ready:
                files.remove(name)

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        try:
            data = self.read(path)
        except FileNotFoundError:
            return None
        return data, hashlib.sha256(data).hexdigest()

    def put_if_match(self, path: str, data: Bytes, tag: str | None) -> bool:
        full = self._target(path)
        with _writing(path), files.locked(full):
            found = self.read_tagged(path)
            if (found and found[1]) != tag:
                return False
            temporary = temporary_name(full)
            self._write(temporary, data)
            try:
                # Only those that lock wait for each other: a missing object may still appear.
                won = tag is not None or files.publish(temporary, full)
                if tag is not None:
                    files.replace(temporary, full)
            finally:
                files.remove(temporary)
            files.sync_directory(_folder(full))
            return won

    @contextmanager
    def open_output(self, path: str) -> Iterator[Output]:
        full = self._target(path)
        temporary = temporary_name(full)
        with _writing(path):
            file = os.fdopen(files.create(temporary), "wb", _BUFFER)

        def send(piece: memoryview) -> None:
            with _writing(path):
                file.write(piece)

        def publish() -> bool:
            with _writing(path):
                file.flush()
                files.sync(file.fileno())
                created = files.publish(temporary, full)
                files.sync_directory(_folder(full))
                return created

        try:
            with publishing(send, publish) as output:
                yield output
        finally:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                files.remove(temporary)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        try:
            with (
                files.opened(self._base, check_key(path)) as descriptor,
                os.fdopen(descriptor, "rb", closefd=False) as file,
            ):
                file.seek(offset)
                return file.read(-1 if length is None else length)
        except OSError as error:
            raise self._lost("read", path, error) from error

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:  # noqa: ARG002
        try:
            with files.opened(self._base, check_key(path)) as descriptor:
                # Arrow opens files by name: use the descriptor's, where it has one.
                again = f"/proc/self/fd/{descriptor}"
                return pa.OSFile(again if os.path.exists(again) else self._base + path, "rb")  # noqa: PTH110
        except OSError as error:
            raise self._lost("read", path, error) from error

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                files.remove_below(self._base, check_key(path))
            except OSError as error:
                raise local_failure("delete", path, error) from error

    def move_aside(self, path: str, new_path: str) -> bool:
        full, new = self._target(path), self._target(new_path)
        try:
            if os.path.lexists(new):
                return False
            files.make_directory(Path(_folder(new)))
            if not files.publish(full, new):
                return False
            for folder in {_folder(full), _folder(new)}:
                files.sync_directory(folder)
        except OSError as error:
            raise self._lost("move", path, error) from error
        return True

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        for key in self._walk(prefix, start_after or ""):
            if is_hidden(key):
                continue
            try:
                found = Path(self._base + key).lstat()
            except FileNotFoundError:
                continue  # deleted since
            except OSError as error:
                raise local_failure("list", key, error) from error
            yield ObjectInfo(key, found.st_size, found.st_mtime_ns // 1_000_000)

    def _walk(self, prefix: str, after: str) -> Iterator[str]:
        """Files in the order of their keys, which differs from the order of directories."""
        below = check_key(prefix.rstrip("/")) + "/" if prefix else ""
        start = after.removeprefix(below) if after.startswith(below) else after[:0]

        def is_later(name: str) -> bool:
            # A folder on the way to the start begins it.
            return name > start or start.startswith(name)

        try:
            with os.scandir(self._base + below) as entries:
                # Only names are held for sorting: there may be a million. Links and pipes are no
                # objects: what they lead to can't be read here.
                names = sorted(
                    f"{entry.name}/" if is_folder else entry.name
                    for entry in entries
                    if is_later(entry.name)
                    and (
                        (is_folder := entry.is_dir(follow_symlinks=False))
                        or entry.is_file(follow_symlinks=False)
                    )
                )
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise local_failure("list", prefix, error) from error
        for name in names:
            key = below + name
            if not name.endswith("/"):
                if key > after:
                    yield key
            elif key > after or after.startswith(key):
                yield from self._walk(key, after)

    def folders(self, prefix: str = "") -> builtins.list[str]:
        below = check_key(prefix.rstrip("/")) + "/" if prefix else ""
        try:
            with os.scandir(self._base + below) as entries:
                return sorted(
                    below + entry.name for entry in entries if entry.is_dir(follow_symlinks=False)
                )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise local_failure("list", prefix, error) from error

    def head(self, path: str) -> ObjectInfo | None:
        try:
            with files.opened(self._base, check_key(path)) as descriptor:
                found = os.fstat(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise local_failure("read", path, error) from error
        return ObjectInfo(path, found.st_size, found.st_mtime_ns // 1_000_000)

    def size(self, path: str) -> int:
        found = self.head(path)
        if found is None:
            raise missing(path, self.location)
        return found.size

    def remove_stale_temps(self, prefix: str, older_than_ms: int) -> int:
        limit = time.time_ns() - older_than_ms * 1_000_000
        removed = 0
        for key in self._walk(prefix, ""):
            try:
                if is_temporary(key) and Path(self._base + key).lstat().st_mtime_ns <= limit:
                    files.remove_below(self._base, key)
                    removed += 1
            except FileNotFoundError:
                continue
            except OSError as error:
                raise local_failure("delete", key, error) from error
        return removed

    def resolve(self, uri: str) -> tuple[ObjectStore, str]:
        found = self._sources.find(uri, self.location)
        if found.own:
            return self, found.key
        return LocalStore(found.place.removeprefix(LOCAL), self._options), found.key

    def _target(self, path: str) -> str:
        """The name under which an object is written; through a link it could not be read again."""
        key = check_key(path)
        if files.leads_away(self._base, key):
            raise _linked("write", path)
        return self._base + key

    def _write(self, full: str, data: Bytes) -> None:
        descriptor = files.create(full)
        try:
            files.write_all(descriptor, data)
            files.sync(descriptor)
        except BaseException:
            files.remove(full)
            raise
        finally:
            os.close(descriptor)

    def _lost(self, verb: str, path: str, error: OSError) -> StoreError:
        if isinstance(error, FileNotFoundError):
            return missing(path, self.location)
        if error.errno in _NO_FILE:
            return _linked(verb, path)
        return local_failure(verb, path, error)


def _linked(verb: str, path: str) -> StoreError:
    return StoreError(
        f"can't {verb} the object {path!r}",
        cause="it is not a file, or it is a link or below one: links inside a table's folder are "
        "not followed",
        remedy="put the file or the folder itself there",
        path=path,
        is_transient=False,
    )


def _name_all(ready: list[tuple[str, str]], chain: list[bool] | None) -> None:
    """Give finished files their names, in order, and remove them from the list."""
    while ready:
        created = files.publish(*ready[0])
        if chain is not None:
            chain.append(created)
            if not created:
                return
        elif not created:
            files.remove(ready[0][0])
        del ready[0]


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise local_failure("write", path, error) from error


def _folder(full: str) -> str:
    return full.rpartition("/")[0]
