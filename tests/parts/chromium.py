"""A real browser, driven by Playwright; Debian's package, since Playwright's own is a download."""

from __future__ import annotations

import shutil

from tests.parts.process import PartMissingError, apt_install


def find() -> str:
    """The program."""
    program = shutil.which("chromium")
    if program is None:
        raise PartMissingError("chromium is not installed; run: make parts")
    return program


def ensure() -> None:
    """Install it unless it is there."""
    try:
        find()
    except PartMissingError:
        apt_install("chromium")
        # Only recommended, and without it pages are measured by boxes.
        apt_install("fonts-liberation")
