"""Failures in one readable block, and the exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from deltasql.cli.text import dumps, printable
from deltasql.errors import DeltaSqlError

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BEHIND: Final = 3
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

# Remedies speak Python; here is the same in the language of this program.
_WORDS: Final = (
    ("see lake.tables()", "deltasql tables lists them"),
    (
        "connect once with sql.schema set to create, as a role that may create tables",
        "run deltasql init or deltasql db migrate, as a role that may create tables",
    ),
    (
        "pass a URL such as sqlite:///lake.db, or set DELTASQL_URL",
        "run deltasql init sqlite:///lake.db, pass --url, or set DELTASQL_URL",
    ),
    ("pass location= to connect, or set DELTASQL_LOCATION", "pass --location"),
    ("mirror.repair(take_back=True)", "deltasql mirror repair TABLE --take-back"),
    ("mirror.repair(force=True)", "deltasql mirror repair TABLE --force"),
    ("mirror.validate()", "deltasql mirror validate"),
    ("mirror.repair()", "deltasql mirror repair TABLE"),
    ('lake.adopt(…, unmirrored="write")', "deltasql adopt --unmirrored=write"),
    ('lake.adopt(…, unmirrored="discard")', "deltasql adopt --unmirrored=discard"),
    ('unmirrored="discard"', "--unmirrored=discard"),
    ("lake.check()", "deltasql db check TABLE"),
    ("lake.rebuild()", "deltasql db rebuild TABLE"),
)


class PipeClosedError(Exception):
    """Nobody reads stdout any more."""


def report(error: BaseException, *, as_json: bool, debug: bool) -> None:
    """Tell stderr what failed; a traceback only with `debug`."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, DeltaSqlError):
        problem, cause, remedy = error.problem, error.cause, spoken(error.remedy)
    elif isinstance(error, OSError) and error.filename is not None:
        # Of a path that somebody gave, or of the machine.
        problem = f"{os.fsdecode(error.filename)!r:.200}: {error.strerror}"
        cause = "the operating system refused it"
        remedy = "correct the path, or what its user may do; --debug shows where it happened"
    else:
        problem = f"unexpected {type(error).__name__}: {error}"
        cause = "deltasql did not foresee this: it is a bug, or the machine is in trouble"
        remedy = "run it again with --debug, and report what that shows"
    if as_json:
        told = {"type": type(error).__name__, "problem": problem, "cause": cause, "remedy": remedy}
        print(dumps({"error": told}, indent=2), file=sys.stderr)
        return
    red, plain = ("\x1b[31;1m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}error:{plain} {printable(problem)}", file=sys.stderr)
    for name, text in (("cause", cause), ("remedy", remedy)):
        if text:
            print(f"  {name}: {printable(text)}", file=sys.stderr)


def spoken(remedy: str) -> str:
    """A remedy in the words of the command line."""
    for python, words in _WORDS:
        remedy = remedy.replace(python, words)
    return remedy
