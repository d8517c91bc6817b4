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
# A name that is too long, or that lies below another file, can't exist.
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
# How long to wait for a lock, which is only held for the time of one small write.
LOCK_LIMIT = 10.0
_FIRST_LOOK, _LAST_LOOK = 0.0005, 0.02

# The data and the size; times may be lost.
sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def create(full: str) -> int:
    """A new file, open for writing, in a directory that is created if necessary."""
    return _open(full, CREATE)


@contextmanager
def opened(base: str, key: str) -> Iterator[int]:
    """A file below a directory, open for reading; nothing but a regular file.

    No part of the path below the directory may be a link: anyone who can write there could lead
    readers to any of their files. Raises `OSError` (ELOOP, ENOTDIR) if there is one.
    """
    with _folder_of(base, key) as (at, name, link_flag):
        # Opening a pipe would otherwise wait for a writer.
        found = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link_flag, dir_fd=at)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", key)
        yield found
    finally:
        os.close(found)


@contextmanager
def _folder_of(base: str, key: str) -> Iterator[tuple[int, str, int]]:
    """The folder that a key lies in, its name there, and the flag that follows no link."""
    *folders, name = key.split("/")
    # Absolute paths of the log are read from the root, where links are the system's own.
    link_flag = 0 if base == "/" else os.O_NOFOLLOW
    at = os.open(base, _DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, _DIRECTORY | link_flag, dir_fd=at)
            os.close(at)
            at = inner
        yield at, name, link_flag
    finally:
        os.close(at)


def leads_away(base: str, key: str) -> bool:
    """Whether a folder of the key is a link; its last part, if no slash follows, may be one."""
    place = -1
    while base != "/" and (place := key.find("/", place + 1)) != -1:
        if os.path.islink(base + key[:place]):  # noqa: PTH114 - a path object costs more
            return True
    return False


def write_all(descriptor: int, data: Bytes) -> None:
    """Write all of the data: one system call may write only a part."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_all(descriptors: Sequence[int], *, waiting: bool = True) -> None:
    """Sync many files. All data is sent off before the first wait: so the disk's journal takes them
    together, and the later waits are short.
    """
    for descriptor in descriptors:
        _send_off(descriptor)
    for descriptor in descriptors if waiting else ():
        sync(descriptor)


def _send_off(descriptor: int) -> None:
    """Start writing, if the system can be told that nobody will read the file again."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def remove(full: str) -> None:
    """Remove a file, if it exists."""
    try:
        os.unlink(full)  # noqa: PTH108 - a path object costs more than the call
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise


def remove_below(base: str, key: str) -> None:
    """Remove a file below a directory, if it exists; below a link nothing does."""
    try:
        with _folder_of(base, key) as (at, name, _):
            os.unlink(name, dir_fd=at)
    except OSError as error:
        if error.errno not in _NOT_THERE and error.errno != errno.ELOOP:
            raise


def publish(temporary: str, full: str) -> bool:
    """Give a finished file its name, unless the name is taken: then returns False, nothing changed.

    A hard link fails if the name exists, on any POSIX file system with links. Without links (FAT,
    some network mounts), Linux renames without replacing. If that is missing, too, the name is
    reserved by an empty file, which is then replaced: there is still one winner, but for a moment,
    and after a crash in it, readers see an empty object.
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
    """Give a finished file its name, replacing what has it."""
    # First, because Spark refuses a file with another file's checksum.
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
    """Exclusive among all who lock this file: threads and processes, on one machine or over NFS.

    No system call replaces a file on condition of its content, so writers that compare and replace
    must wait for each other. The lock is a separate file, because the file itself is replaced, and
    its holder removes it: a process that waited for a removed one takes the next. A holder that
    hangs blocks nobody for ever: `TimeoutError` after `LOCK_LIMIT` seconds.
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
    """Poll, because the system call that waits has no timeout."""
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
    """Remove a checksum that outlived its file; False if the file exists and owns it."""
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
    """Create it and its parents, so that a power loss doesn't remove them again."""
    if directory.is_dir():
        return
    if not directory.parent.exists():
        make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(str(directory.parent))
