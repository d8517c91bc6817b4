"""Files that appear whole or not at all: the system calls below the local store."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from deltasql.objectstore.names import checksum_name, lock_name
from deltasql.objectstore.store import Bytes

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
# No file can have a name that is too long, or stand below another file.
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
# How long anyone waits for a lock, which its holders have for the time of one small write.
LOCK_LIMIT = 10.0
_FIRST_LOOK, _LAST_LOOK = 0.0005, 0.02

# The data and the size; times may be lost.
sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def create(full: str) -> int:
    """A new file, open for writing, and its directory if that is missing."""
    return _open(full, CREATE)


@contextmanager
def opened(base: str, key: str) -> Iterator[int]:
    """A file below a directory, open for reading, and no other kind of thing.

    Nothing on the way from the directory may be a link: whoever can write there could lead
    readers to any file of theirs. `OSError` (ELOOP, ENOTDIR) where there is one.
    """
    *folders, name = key.split("/")
    # Absolute paths of the log are read from the root, where links are the system's own.
    link_flag = 0 if base == "/" else os.O_NOFOLLOW
    at = os.open(base, _DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, _DIRECTORY | link_flag, dir_fd=at)
            os.close(at)
            at = inner
        # A pipe would wait for somebody to write into it.
        found = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link_flag, dir_fd=at)
    finally:
        os.close(at)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", key)
        yield found
    finally:
        os.close(found)


def write_all(descriptor: int, data: Bytes) -> None:
    """All of the data: one write may take only a part of it."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_all(descriptors: Sequence[int], *, waiting: bool = True) -> None:
    """The data of many files. All of it is on its way before the first is waited for: so the
    disk's journal takes them together, and the later waits are short.
    """
    for descriptor in descriptors:
        _send_off(descriptor)
    for descriptor in descriptors if waiting else ():
        sync(descriptor)


def _send_off(descriptor: int) -> None:
    """Begin to write, where the system can be asked to: who won't read it again may say so."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def remove(full: str) -> None:
    """Remove a file, there or not."""
    try:
        os.unlink(full)  # noqa: PTH108 - a path object costs more than the call
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise


def publish(temporary: str, full: str) -> bool:
    """Give a finished file its name, unless something has it: then False, and nothing changed.

    A hard link fails where the name exists, on any POSIX file system that has links. Where it
    has none (FAT, some network mounts), Linux renames without replacing. Where that is missing
    too, the name is reserved by an empty file and then replaced: still one winner, but for a
    moment, and after a crash in it, readers see an empty object.
    """
    if not _drop_stale_checksum(full):
        return False
    try:
        os.link(temporary, full)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _publish_without_links(temporary, full)
    remove(temporary)
    return True


def replace(temporary: str, full: str) -> None:
    """Give a finished file its name, in place of what has it."""
    # First, because Spark refuses a file whose checksum is another's.
    remove(checksum_name(full))
    Path(temporary).replace(full)


def sync_directory(directory: str) -> None:
    """Make the names in a directory survive a power loss."""
    descriptor = os.open(directory, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(full: str) -> Iterator[None]:
    """Alone among all who lock this file, threads and processes, on one machine or over NFS.

    No system call replaces a file on condition of its content, so that writers who compare and
    replace have to wait for each other. The lock lies beside the file, because the file itself
    is replaced, and is removed by its holder: whoever waited for a removed one takes the next.
    A holder that hangs keeps nobody for ever: `TimeoutError` after `LOCK_LIMIT` seconds.
    """
    path = lock_name(full)
    deadline = time.monotonic() + LOCK_LIMIT
    while True:
        descriptor = _open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            _lock(descriptor, path, deadline)
            if not _is_at(descriptor, path):
                continue
            try:
                yield
            finally:
                remove(path)
            return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, path: str, deadline: float) -> None:
    """Look again and again: a system call that waits has no limit of its own."""
    pause = _FIRST_LOOK
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                told = f"somebody else has held the lock on it for {LOCK_LIMIT:g} s"
                raise TimeoutError(errno.ETIMEDOUT, told, path) from None
            time.sleep(pause)
            pause = min(pause * 2, _LAST_LOOK)
        else:
            return


def _open(full: str, flags: int) -> int:
    try:
        return os.open(full, flags, 0o666)
    except FileNotFoundError:
        make_directory(Path(full).parent)
        return os.open(full, flags, 0o666)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there = Path(path).stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def _drop_stale_checksum(full: str) -> bool:
    """Remove a checksum that outlived its file; False when the file is there and owns it."""
    checksum = checksum_name(full)
    if not os.path.lexists(checksum):
        return True
    if os.path.lexists(full):
        return False
    remove(checksum)
    return True


def _publish_without_links(temporary: str, full: str) -> bool:
    try:
        _rename_without_replacing(temporary, full)
    except FileExistsError:
        return False
    except (OSError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LINKS:
            raise
        return _publish_by_reserving(temporary, full)
    return True


def _rename_without_replacing(source: str, target: str) -> None:
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    names = os.fsencode(source), os.fsencode(target)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_NOREPLACE)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), source, None, target)


def _publish_by_reserving(temporary: str, full: str) -> bool:
    try:
        os.close(os.open(full, CREATE, 0o666))
    except FileExistsError:
        return False
    Path(temporary).replace(full)
    return True


def make_directory(directory: Path) -> None:
    """Make it and what it lies in, so that a power loss doesn't take them away again."""
    if directory.is_dir():
        return
    if not directory.parent.exists():
        make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(str(directory.parent))
