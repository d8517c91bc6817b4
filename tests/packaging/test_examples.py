"""The examples run, and check themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Their cells are run one by one: tests/spark/sql/test_notebook.py.
NOTEBOOKS = [example for example in EXAMPLES if example.read_text().startswith("# %%")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "example", [item for item in EXAMPLES if item not in NOTEBOOKS], ids=lambda path: path.stem
)
def test_it_runs(example, tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DELTASQL_")}
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir())


def test_all_are_listed():
    listed = (ROOT / "examples" / "README.md").read_text()
    assert all(f"({example.name})" in listed for example in EXAMPLES)
