"""Run the code of pages, each in a folder of its own: `python -m tests.docs.runner PAGE…`

Blocks of a page share their names and files, in order. `python` is run in this process, so that
pages with Spark share one session; `console` line by line, with its output compared (`…` stands
for anything, as the last line for any number of lines, `# exit 3` for a code other than 0);
`sql` on the page's lake; what is only data must be valid. `setups/PAGE.py`, where there is one, is
run before the page PAGE.md: what it defines is there, its `PLACES` say what addresses of the page
stand for, and its `WAYS` run languages otherwise.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from deltasql import Lake
from tests.cli import warm
from tests.docs.blocks import Block, blocks_of
from tests.stress import swarm

ROOT = Path(__file__).parents[2]


class Page:
    """A page that is being run; what its blocks define stays for the next ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: dict[str, Any] = {"__name__": "__docs__"}

    def prepare(self) -> None:
        setup = Path(__file__).with_name("setups") / f"{self.path.stem}.py"
        if setup.exists():
            exec(compile(setup.read_text(), str(setup), "exec"), self.names)

    def placed(self, code: str) -> str:
        for address, place in self.names.get("PLACES", {}).items():
            code = code.replace(address, place)
        return code

    def run(self) -> None:
        self.prepare()
        ways: dict[str, Callable[[Block], None]] = {
            "python": self.python,
            "console": self.console,
            "sh": self.shell,
            "sql": self.sql,
            "toml": self.toml,
            "json": lambda block: json.loads(block.code),
            "yaml": lambda block: yaml.safe_load(block.code),
            **self.names.get("WAYS", {}),
        }
        for found in blocks_of(self.path):
            block = replace(found, code=self.placed(found.code))
            if block.language not in ways:
                raise AssertionError(f"line {block.line}: nobody runs {block.language!r}")
            try:
                ways[block.language](block)
            except BaseException:
                print(f"{self.path.name}, line {block.line}:\n{block.code}", file=sys.stderr)
                raise

    def close(self) -> None:
        """Let the mirror's publish runs end before the folder goes that they write to."""
        for value in list(self.names.values()):
            if isinstance(value, Lake):
                value.close()

    def python(self, block: Block) -> None:
        # So that tracebacks show the page's line.
        code = "\n" * (block.line - 1) + block.code
        exec(compile(code, str(self.path), "exec"), self.names)

    def shell(self, block: Block) -> None:
        subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], check=True)

    def console(self, block: Block) -> None:
        for command, expected in _commands(block.code):
            if command.startswith("make "):
                # Here the target only has to exist: tests would run the tests.
                check = ["make", "-C", str(ROOT), "-n", *shlex.split(command, comments=True)[1:]]
                subprocess.run(check, check=True, capture_output=True)
                continue
            if command.startswith("pip install"):
                _extras_must_exist(command)
                continue
            wanted_code = re.search(r"# exit (\d+)$", command)
            code, said = _ended(command)
            told = f"$ {command}\n{said}"
            assert code == int(wanted_code[1] if wanted_code else 0), told
            if expected:
                lines = said.rstrip().splitlines()
                if expected[-1] == "…":
                    del expected[-1], lines[len(expected) :]
                assert len(lines) == len(expected), told
                for line, wanted in zip(lines, expected, strict=True):
                    pattern = ".*".join(re.escape(part) for part in wanted.rstrip().split("…"))
                    assert re.fullmatch(pattern, line.rstrip()), f"{told}\nwanted: {wanted}"

    def sql(self, block: Block) -> None:
        lake = self.names.get("lake")
        if lake is not None and lake.url.startswith("postgresql"):
            import psycopg

            url = os.environ["DELTASQL_DOCS_POSTGRES"]
            with psycopg.connect(url) as connection:
                connection.execute(block.code.encode())
            return
        import sqlite3

        # URLs of pages are relative.
        path = lake.url.removeprefix("sqlite:///") if lake is not None else "lake.db"
        connection = sqlite3.connect(path)
        pending = ""
        for line in block.code.splitlines(keepends=True):
            pending += line
            if sqlite3.complete_statement(pending):
                connection.execute(pending).fetchall()
                pending = ""
        if pending.strip():
            connection.execute(pending).fetchall()
        connection.close()

    def toml(self, block: Block) -> None:
        from deltasql.settings.sources import resolve

        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(block.code)
            file.flush()
            for profile in (None, *tomllib.loads(block.code).get("profiles", {})):
                resolve(file=file.name, profile=profile, environment={})


def _ended(command: str) -> tuple[int, str]:
    """How a command ended, and what it said: output first, errors last.

    The program alone is a fork of a process that has it imported; all else is for the shell.
    """
    if re.match(r"deltasql [^|&;<>()$`~*?{}\n]*$", command):
        with tempfile.TemporaryDirectory(prefix="deltasql-said-") as folder:
            said = Path(folder) / "said"
            words = shlex.split(command, comments=True)[1:]
            process = swarm.start(warm.run, words, Path.cwd(), dict(os.environ), said)
            process.join()
            texts = (Path(f"{said}.{name}").read_text("utf-8") for name in ("out", "err"))
            return process.exitcode or 0, "".join(texts)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _commands(code: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a transcript, with the output below it."""
    command, expected = "", []
    for line in code.splitlines():
        if command.endswith("\\"):
            command += "\n" + line
        elif line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], []
        else:
            expected.append(line)
    if command:
        yield command, expected


def _extras_must_exist(command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"deltasql(?:\[([\w,]+)\])?", command)
    assert named, command
    for extra in ",".join(named).split(","):
        assert not extra or extra in project["optional-dependencies"], command


def main(pages: list[str]) -> int:
    failed = 0
    for name in pages:
        page = Path(name).absolute()
        with tempfile.TemporaryDirectory(prefix="deltasql-docs-") as folder:
            os.chdir(folder)
            opened = Page(page)
            try:
                opened.run()
            except BaseException:  # noqa: BLE001 - the other pages are run too
                traceback.print_exc()
                failed += 1
            finally:
                opened.close()
                os.chdir(ROOT)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
