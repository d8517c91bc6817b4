"""The notebook among the examples, its cells run one after the other in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

from tests.parts import spark as spark_part

NOTEBOOK = Path(__file__).parents[3] / "examples" / "notebook.py"


def test_every_cell_runs(spark, monkeypatch, capsys):
    # The session that is there is the one that the notebook gets.
    monkeypatch.setenv("DELTASQL_SPARK_JARS", str(spark_part.JARS))
    parts = re.split(r"^# %%", NOTEBOOK.read_text(), flags=re.MULTILINE)[1:]
    cells = [text for text in parts if not text.startswith(" [markdown]")]
    assert len(cells) > 8
    names: dict[str, object] = {"__name__": "notebook"}
    for number, text in enumerate(cells, 1):
        exec(compile(text, f"cell {number}", "exec"), names)
    shown = capsys.readouterr().out
    assert "update_postimage" in shown
    assert not Path(names["folder"].name).exists()
