"""The examples run, and check themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.spark import JARS
from tests.parts.spark_settings import ENVIRONMENT
from tests.sizes import FULL

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Their cells are run one by one: tests/spark/sql/test_notebook.py.
NOTEBOOKS = [example for example in EXAMPLES if example.read_text().startswith("# %%")]
# The demo has such a stream, too, whose driver is killed and started again.
LONG = [] if FULL else ["stream_two_tables"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "example",
    [item for item in EXAMPLES if item not in NOTEBOOKS and item.stem not in LONG],
    ids=lambda path: path.stem,
)
def test_it_runs(example, tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DELTASQL_")}
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env={
            **kept,
            **ENVIRONMENT,
            "PYTHONPATH": str(ROOT / "src"),
            "DELTASQL_SPARK_JARS": str(JARS),
            # The mirror's lease of a driver that was killed lasts half a minute: commits of the
            # next one need not wait for that.
            "DELTASQL_MIRROR_SYNC_TIMEOUT": "500ms",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir())


def test_the_notebook_runs(tmp_path, monkeypatch):
    """In a kernel, as Jupyter would; the file itself holds no output."""
    import nbformat
    from nbclient import NotebookClient

    found = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in found.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells)
    # Of this interpreter, whatever kernels the machine has.
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for key in [name for name in os.environ if name.startswith("DELTASQL_")]:
        monkeypatch.delenv(key)
    NotebookClient(found, timeout=100, kernel_name="python3").execute(cwd=str(tmp_path))
    shown = [set(output.get("data", {})) for cell in cells for output in cell.outputs]
    assert sum("text/html" in kinds for kinds in shown) >= 4
    assert sum("image/png" in kinds for kinds in shown) == 1


def test_all_are_listed():
    listed = (ROOT / "examples" / "README.md").read_text()
    assert all(f"({example.name})" in listed for example in [*EXAMPLES, NOTEBOOK])
