"""Failures in one readable block, and the exit codes."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import Final

from deltasql.cli.text import dumps, printable
from deltasql.errors import DeltaSqlError
from deltasql.secrecy import redacted

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BEHIND: Final = 3
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


def _option(match: re.Match[str]) -> str:
    return f"--{match[1].replace('_', '-')}"


# Remedies speak Python; here is the same in the language of this program.
_WORDS: Final = (
    (r"see lake\.tables\(\)", "deltasql tables lists them"),
    (
        r"connect once with sql\.schema set to create, as a role that may create tables",
        "run deltasql init or deltasql db migrate, as a role that may create tables",
    ),
    (
        r"pass a URL such as sqlite:///lake\.db, or set DELTASQL_URL",
        "run deltasql init sqlite:///lake.db, pass --url, or set DELTASQL_URL",
    ),
    (r"pass location= to connect, or set DELTASQL_LOCATION", "pass --location"),
    (r"mirror\.repair\(take_back=True\)", "deltasql mirror repair TABLE --take-back"),
    (r"mirror\.repair\(force=True\)", "deltasql mirror repair TABLE --force"),
    (r"mirror\.validate\(\)", "deltasql mirror validate"),
    (r"mirror\.repair\(\)", "deltasql mirror repair TABLE"),
    (r'lake\.adopt\(…, unmirrored="(\w+)"\)', r"deltasql adopt --unmirrored=\1"),
    (r'unmirrored="(\w+)"', r"--unmirrored=\1"),
    (r"lake\.adopt\(…, allow=\[(.*?)\]\)", r"deltasql adopt --allow \1"),
    (r"lake\.adopt\(location, name\)", "deltasql adopt LOCATION NAME"),
    (r"lake\.recover\('(.*?)'\)", r"deltasql recover \1"),
    (r"pass anywhere=True to", "pass --anywhere to"),
    (r"look with dry_run=True", "look with --dry-run"),
    (r"or pass limit=(\d+)", r"or pass --limit \1"),
    (r"lake\.check\(\)", "deltasql db check TABLE"),
    (r"lake\.rebuild\(\)", "deltasql db rebuild TABLE"),
    (r"lake\.tables\(\)", "deltasql tables"),
    (r"lake\.dropped\(\)", "deltasql tables --dropped"),
    (r"lake\.(sessions|pins)\(\)", "deltasql db sessions"),
    (r"lake\.purge\((.*?)\)", r"deltasql purge \1"),
    (r"lake\.undrop\(…, new_name=…\)", "deltasql undrop TABLE --new-name NAME"),
    (r"table\.snapshot\(\)\.\w+", "deltasql show TABLE"),
    (r"table\.release\(\)", "deltasql release TABLE"),
    (r"table\.drop_constraint\(name\)", "deltasql alter drop-constraint TABLE NAME"),
    (r"add_constraint and drop_constraint", "deltasql alter add-constraint and drop-constraint"),
    (r"enforce_retention_duration=False", "--no-enforce-retention"),
    (r"validate=False", "--no-validate"),
    (r"pass a time as start", "pass a time with --from"),
    (r"(enable_column_mapping|enable_type_widening|truncate_history)=True", _option),
)


class PipeClosedError(Exception):
    """Nobody reads stdout any more."""


def report(error: BaseException, *, as_json: bool, debug: bool) -> None:
    """Tell stderr what failed; a traceback only with `debug`."""
    if debug:
        print(redacted("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    if isinstance(error, DeltaSqlError):
        problem, cause, remedy = error.problem, error.cause, spoken(error.remedy)
    elif isinstance(error, OSError) and error.filename is not None:
        # Of a path that somebody gave, or of the machine.
        problem = f"{os.fsdecode(error.filename)!r:.200}: {error.strerror}"
        cause = "the operating system refused it"
        remedy = "correct the path or its permissions; --debug shows where it happened"
    else:
        problem = f"unexpected {type(error).__name__}: {error}"
        cause = "this is a bug in deltasql, or the machine has a problem"
        remedy = "run it again with --debug, and report the output"
    problem = redacted(problem)
    if as_json:
        told = {"type": type(error).__name__, "problem": problem, "cause": cause, "remedy": remedy}
        print(dumps({"error": told}, indent=2), file=sys.stderr)
        return
    red, plain = ("\x1b[31;1m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}error:{plain} {printable(problem)}", file=sys.stderr)
    for name, text in (("cause", cause), ("remedy", remedy)):
        if text:
            # Further lines are indented further, so that none of them can pass for another part.
            lines = printable(text.replace("\n\t", "\n"), keep="\n").replace("\n", "\n    ")
            print(f"  {name}: {lines}", file=sys.stderr)


def spoken(remedy: str) -> str:
    """A remedy in the words of the command line."""
    for python, words in _WORDS:
        remedy = re.sub(python, words, remedy)
    return remedy
