"""Runs the program in a fork of a process that has it imported already.

`swarm` imports this module where it forks: what the commands would import when they run, too.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import deltasql.cli
from deltasql.cli.main import main

_LATER = "pyarrow.parquet pyarrow.dataset obstore.store pydantic.main typer.rich_utils"
for _name in ("deltasql.lake.catalog", *_LATER.split()):
    importlib.import_module(_name)
for _module in pkgutil.walk_packages(deltasql.cli.__path__, "deltasql.cli."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], said: Path) -> None:
    """Be `deltasql` with these arguments; what it says goes to two files, nothing comes in."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, name in enumerate((os.devnull, f"{said}.out", f"{said}.err")):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        opened = os.open(name, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    sys.argv = ["deltasql", *arguments]
    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
