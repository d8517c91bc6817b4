"""A file for the processes that a Spark driver starts, gone when the driver is."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path


class DriverFile:
    """What this process passes to others of the same user on the same machine, without using a
    disk.

    On Linux it is in memory, reached through this process's descriptors, and so it disappears with
    the process, however that ends. Elsewhere it is a temporary file that is deleted at exit.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._owner = 0
        self._descriptor: int | None = None
        self._folder: Path | None = None

    def write(self, content: bytes) -> Path:
        """Replace its content; readers see either the old or the new one, whole."""
        if self._owner != os.getpid():
            # A forked child gets its own file, because its parent's ends with the parent.
            self._owner, self._descriptor, self._folder = os.getpid(), None, None
        if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
            return self._in_memory(content)
        return self._on_disk(content)

    def _in_memory(self, content: bytes) -> Path:
        fresh = os.memfd_create(self._name)
        with os.fdopen(os.dup(fresh), "wb") as out:
            out.write(content)
        if self._descriptor is None:
            self._descriptor = fresh
        else:
            os.dup2(fresh, self._descriptor, inheritable=False)
            os.close(fresh)
        return Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    def _on_disk(self, content: bytes) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"{self._name}-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        fresh, file = self._folder / "new", self._folder / self._name
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
        return fresh.rename(file)
