"""dbt with its adapter for Spark, in an environment of its own: it wants older libraries than we.

It has no PySpark: the session's is lent to it, see `tests/spark/plugin/test_dbt.py`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.parts.locked import pip_packages, run
from tests.parts.process import TOOLS, PartMissingError
from tests.parts.spark import ROOT

FOLDER = Path(os.environ.get("DELTASQL_TEST_DBT", TOOLS.parent / "dbt"))


def find() -> str:
    """The program."""
    program = FOLDER / "bin" / "dbt"
    if not program.exists():
        raise PartMissingError("dbt is not installed; run: make parts DELTASQL_STRESS=1")
    return str(program)


def ensure() -> None:
    """Install it unless it is there."""
    if (FOLDER / "bin" / "dbt").exists():
        return
    half = FOLDER.with_name(f"{FOLDER.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    uv = str(ROOT / ".ci" / "uv")
    ours = str(ROOT / ".venv" / "bin" / "python")
    run([uv, "venv", "--quiet", "--relocatable", "--python", ours, str(half)])
    # Its lock has 1.11: from 1.12 on dbt-core fetches its parser from elsewhere than a registry.
    into = ["--python", str(half / "bin" / "python")]
    run([uv, "pip", "install", "--quiet", *into, *pip_packages("dbt")])
    shutil.rmtree(FOLDER, ignore_errors=True)
    half.rename(FOLDER)
