"""The lake's URL from a program, such as a password manager, instead of a file or a variable."""

from __future__ import annotations

import shlex
import subprocess
from typing import Final

from deltasql.errors import ConfigError
from deltasql.secrecy import discreet, raise_alone

KEY: Final = "url_command"
_SECONDS: Final = 60


@discreet
def url_from(command: str) -> str:
    """The single line that the command prints; its output is never shown."""
    try:
        words = shlex.split(command)
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=_SECONDS, check=True)
        lines = done.stdout.decode().split("\n")
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        # The command may have printed a password before it failed.
        raise_alone(_failed(command, _why(error)))
    if not lines[0].strip() or any(line.strip() for line in lines[1:]):
        raise _failed(command, "it did not print exactly one line")
    return lines[0].strip()


def shown(command: str) -> str:
    """The command for display: its program, without arguments, which may be secret."""
    try:
        words = shlex.split(command)
    except ValueError:
        return "***"
    # VARIABLE=value is no program.
    program = ["***" if "=" in word else word for word in words[:1]]
    return " ".join([*program, "***"] if words[1:] else program)


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it did not end within {_SECONDS} s"
    if isinstance(error, OSError):
        return error.strerror or "it can't be run"
    return "it is not a command line" if isinstance(error, ValueError | IndexError) else str(error)


def _failed(command: str, why: str) -> ConfigError:
    return ConfigError(
        f"{KEY} gave no URL",
        cause=why,
        remedy=f"run it by hand; it is {shown(command)!r:.200}",
    )
