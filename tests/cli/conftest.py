"""The program as a user runs it: another process, in a folder of its own.

`start` and `on_terminal` begin with Python itself; a call is a fork of a process that has the
program imported.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from tests.cli import warm
from tests.stress import swarm

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "deltasql.cli"]
ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The tab-separated lines below the heading."""
        return [line.split("\t") for line in self.out.splitlines()[1:]]


class Program:
    """Runs `deltasql` in a folder, through pipes or on a terminal."""

    def __init__(self, folder: Path, said: Path) -> None:
        self.folder = folder
        # Where runs leave what they say: not in the folder, which is looked at.
        self.said = said
        # Nothing of the developer's own settings.
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        self.environment = {**kept, "PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8"}

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, **environment: str) -> Ended:
        said = self.said / uuid.uuid4().hex
        given = self.environment | environment
        process = swarm.start(warm.run, arguments, self.folder, given, said)
        process.join(60)
        if process.exitcode is None:
            process.kill()
            pytest.fail(f"deltasql {' '.join(arguments)} has not ended in a minute")
        out, err = (Path(f"{said}.{name}").read_text("utf-8") for name in ("out", "err"))
        return Ended(process.exitcode, out, err)

    def anew(self, *arguments: str, **environment: str) -> Ended:
        """With a Python of its own, which reads its own variables when it starts."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=60)
        return Ended(process.returncode, out, err)

    def on_terminal(
        self, *arguments: str, environment: Mapping[str, str] | None = None, typed: str = ""
    ) -> Ended:
        """Run on a pseudo-terminal of 100 columns; stdout and stderr come as one."""
        controller, terminal = pty.openpty()
        process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment
            | {"TERM": "xterm-256color", "COLUMNS": "100"}
            | (environment or {}),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        os.write(controller, typed.encode())
        shown = _read_all(controller, deadline=time.monotonic() + 60)
        os.close(controller)
        return Ended(process.wait(timeout=10), shown.decode().replace("\r\n", "\n"), "")


def _read_all(descriptor: int, *, deadline: float) -> bytes:
    shown = b""
    while time.monotonic() < deadline:
        ready, _, _ = select.select([descriptor], [], [], 0.5)
        try:
            piece = os.read(descriptor, 65536) if ready else None
        except OSError:  # Linux's end of file on a terminal
            break
        if piece == b"":
            break
        shown += piece or b""
    return shown


@pytest.fixture
def program(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path, tmp_path_factory.mktemp("said"))


@pytest.fixture
def lake(tmp_path: Path):
    """A lake in the program's folder, which deltasql.toml names."""
    (tmp_path / "deltasql.toml").write_text('url = "sqlite:///lake.db"\nlocation = "lake"\n')
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    with deltasql.connect(url, location=str(tmp_path / "lake"), committer="me") as lake:
        yield lake


@pytest.fixture
def orders(lake):
    table = lake.create_table("sales.orders", ORDERS, partition_by=["day"])
    table.append(rows(1, 2, day="2026-11-01"))
    table.append(rows(3, day="2026-11-02"))
    return table


def rows(*ids: int, day: str = "2026-11-01", amount: float = 1.5) -> pa.Table:
    return pa.table({"id": list(ids), "day": [day] * len(ids), "amount": [amount] * len(ids)})
