"""Tools from the registries of Go, npm and PyPI, each as its lock in `locks/` has it, by hash.

The locks name no host, so that they work behind any mirror. To renew one:
`go get …@vN && go mod tidy`, `npm install --package-lock-only --omit-lockfile-registry-resolved`
after a change of package.json, and `uv pip compile --generate-hashes`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.parts.process import TOOLS, PartMissingError, apt_install

LOCKS = Path(__file__).with_name("locks")


def go_build(name: str, package: str, program: Path) -> None:
    """Build a program of the modules that `locks/<name>/go.sum` has."""
    if shutil.which("go") is None:
        apt_install("golang-go")
    TOOLS.mkdir(parents=True, exist_ok=True)
    # A module whose sum is missing or another is refused, where a proxy of modules lies too.
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
    run(["go", "build", "-o", str(program), package], folder=LOCKS / name, environment=environment)


def npm_install(name: str, folder: Path) -> None:
    """Install the packages of `locks/<name>/package-lock.json`, without their install scripts."""
    if shutil.which("npm") is None:
        apt_install("npm")
    half = folder.with_name(f"{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(LOCKS / name, half)
    run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], folder=half)
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)


def pip_packages(name: str) -> list[str]:
    """Arguments of `uv pip install` for the packages of `locks/<name>.lock`."""
    return ["--require-hashes", "--requirement", str(LOCKS / f"{name}.lock")]


def run(
    command: list[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Run a command that installs something; what it says is the reason if it can't."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise PartMissingError(f"{' '.join(command[:4])} … failed: {said}")
