"""Unit tests do no I/O: who opens a file, a socket, a database or a process here fails.

What needs any of them belongs to another folder. Modules are still imported when they are first
needed, and hypothesis keeps its examples: reading code, and its folder, are no findings. Code in
C that does not tell Python what it opens is caught by the path that it would need: there is no
`tmp_path` here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parent
_FORBIDDEN_FIXTURES = {"tmp_path", "tmp_path_factory", "tmpdir", "conformance_dir", "store_url"}
_FORBIDDEN_EVENTS = (
    "socket.connect", "socket.bind", "sqlite3.connect", "subprocess.Popen",
    "os.fork", "os.exec", "os.posix_spawn",
    "os.mkdir", "os.remove", "os.rename", "os.link", "os.symlink",
    "tempfile.mkdtemp", "tempfile.mkstemp", "shutil.rmtree",
)  # fmt: skip
_CODE = (".py", ".pyc", ".so", ".sql", ".typed", ".pth")
_LIBRARIES = tuple(os.path.realpath(path) for path in (sys.prefix, sys.base_prefix))
_watching: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or (event != "open" and event not in _FORBIDDEN_EVENTS):
        return
    # A number is a file that is open already.
    what = arguments[0] if arguments else ""
    is_file = event == "open" or event.startswith("os.")
    if is_file and (isinstance(what, int) or _is_harmless(str(what))):
        return
    if not _by_hypothesis():
        test = _watching[-1]
        raise AssertionError(f"{test} does I/O: {event} {what}; move it out of tests/unit")


def _is_harmless(path: str) -> bool:
    if path.endswith(_CODE) or "__pycache__" in path:
        return True
    real = os.path.realpath(path)
    return real.startswith(_LIBRARIES) or f"{os.sep}src{os.sep}deltasql" in real


def _by_hypothesis() -> bool:
    """Whether it keeps an example, by way of a temporary file."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "hypothesis.database":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


sys.addaudithook(_watch)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FOLDER in item.path.parents:
            used = _FORBIDDEN_FIXTURES & set(getattr(item, "fixturenames", ()))
            if used:
                raise pytest.UsageError(f"{item.nodeid} asks for {sorted(used)}: no unit test")


@pytest.fixture(autouse=True)
def _no_io(request: pytest.FixtureRequest) -> Iterator[None]:
    _watching.append(request.node.nodeid)
    yield
    _watching.clear()
