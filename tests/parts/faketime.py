"""A clock of a server's own, which a test may set back and forth (libfaketime)."""

from __future__ import annotations

from pathlib import Path

from tests.parts.process import PartMissingError, apt_install

_PLACES = ("/usr/lib", "/usr/local/lib", "/usr/lib64")


def find() -> str:
    """The library that stands between a program and the clock."""
    for place in _PLACES:
        for found in sorted(Path(place).glob("**/faketime/libfaketime.so.1")):
            return str(found)
    raise PartMissingError("faketime is not installed; run: make parts")


def ensure() -> None:
    """Install faketime unless it is there."""
    try:
        find()
    except PartMissingError:
        apt_install("faketime")


class FalseClock:
    """What the programs that run with `environment` take for the time."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self.shift(0)

    def shift(self, days: float) -> None:
        """Let it be so many days from the true time."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{days * 86_400:+.0f}\n")
        beside.chmod(0o644)
        beside.replace(self._file)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": find(),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            # Waits are not to end with the clock's steps.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
