"""A child process that listens on a loopback port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

TOOLS = Path(__file__).parents[2] / ".tools" / "bin"
NOBODY = 65534
# Parts are installed side by side, Debian's packages one after the other.
_APT = threading.Lock()


class PartMissingError(Exception):
    """A program is not installed; the message says how to get it."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged(command: list[str]) -> list[str]:
    """Servers that refuse to run as root run as nobody instead."""
    if os.geteuid() != 0:
        return command
    ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *ids, "--", *command]


def give_to_unprivileged(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def apt_install(package: str) -> None:
    """Install a Debian package, if this is Debian and we may."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise PartMissingError(f"{package} is not installed; as root: apt-get install {package}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Another installation may be under way: its end is waited for.
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "-y", "--no-install-recommends", package]
    with _APT:
        for command in ([*apt, "update"], install):
            done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PartMissingError(f"apt-get install {package} failed: {done.stderr.strip()[-500:]}")


class LoopbackProcess:
    """A server in the foreground of a child process, its output in `<dir>/<name>.log`."""

    name: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=subprocess.STDOUT, cwd=self.directory
            )
        self._wait_until_listening()
        return self

    def stop(self) -> None:
        """End it politely."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_until_listening(self, timeout: float = 15) -> None:
        deadline = time.monotonic() + timeout
        while self.running and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        self.kill()
        tail = self.log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{self.name} did not come up on port {self.port}:\n{tail}")
