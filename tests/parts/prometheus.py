"""Prometheus, of which the tests use `promtool`: it checks rules and runs their tests."""

from __future__ import annotations

import shutil

from tests.parts.process import PartMissingError, apt_install


def find() -> str:
    """The program."""
    program = shutil.which("promtool")
    if program is None:
        raise PartMissingError("promtool is not installed; run: make parts")
    return program


def ensure() -> None:
    """Install it unless it is there."""
    try:
        find()
    except PartMissingError:
        apt_install("prometheus")
