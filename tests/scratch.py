"""Where tests write: in memory, where the machine has room for it.

Tests make hundreds of thousands of small files, and on some disks each takes milliseconds: a
database of PostgreSQL a second, of which a test has one to itself. Processes are killed here, not
machines, so that nothing depends on a disk. `make test-full` writes to the disk, as users do, and a
TMPDIR of your own is kept.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

from tests.sizes import FULL

_MEMORY = Path("/dev/shm")
# Tests keep what they write only while they run; Spark and the servers want memory, too.
_ROOM = 8 * 2**30


def choose() -> None:
    """Let `tempfile`, pytest and all child processes write to memory, if that is wise."""
    if FULL or "TMPDIR" in os.environ or not _has_room():
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def _has_room() -> bool:
    if not os.access(_MEMORY, os.W_OK):
        return False
    free = os.statvfs(_MEMORY)
    return min(free.f_bavail * free.f_frsize, psutil.virtual_memory().available) >= _ROOM
