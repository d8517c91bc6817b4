"""The guard of this folder sees who does I/O."""

import socket
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "call",
    [
        lambda: Path("/proc/self/status").read_text(),
        lambda: Path("there").write_text("x"),
        lambda: Path("there").mkdir(),
        lambda: socket.create_connection(("127.0.0.1", 1)),
        lambda: sqlite3.connect(":memory:"),
        lambda: subprocess.run([sys.executable, "-V"], check=True),
        tempfile.mkdtemp,
    ],
    ids=["read", "write", "folder", "socket", "database", "process", "temporary"],
)
def test_it_is_seen(call):
    with pytest.raises(AssertionError, match="does I/O"):
        call()
