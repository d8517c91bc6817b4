"""The documentation is true: its code runs, its references are the code's, its links lead."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import reference
from tests.docs.blocks import blocks_of, needs_spark
from tests.parts.spark import JARS
from tests.parts.spark_settings import ENVIRONMENT

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# Run by tests of their own: tests/store/test_schema_docs.py, on all three databases, and
# tests/adoption/test_disaster_recovery.py, disaster by disaster.
ELSEWHERE = [ROOT / "docs" / name for name in ("schema.md", "disaster-recovery.md")]
WITH_CODE = [page for page in PAGES if blocks_of(page) and page not in ELSEWHERE]
PLAIN = [page for page in WITH_CODE if not needs_spark(page)]
SPARK = [page for page in WITH_CODE if needs_spark(page)]


@pytest.fixture
def run_pages(tmp_path):
    """Run pages in another process, where `deltasql` is on the path."""
    program = tmp_path / "deltasql"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m deltasql.cli "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DELTASQL_")}
    paths = [str(ROOT / "src"), str(ROOT)]
    environment = {
        **kept,
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
    }

    def run(*pages: Path, **more: str) -> None:
        if not set(pages) & set(SPARK):
            # Completion is installed there; Spark's caches are at home.
            more |= {"HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs.runner", *map(str, pages)],
            cwd=ROOT,
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_runs(run_pages, page, request):
    more = {}
    if "DELTASQL_DOCS_POSTGRES" in page.read_text():
        more["DELTASQL_DOCS_POSTGRES"] = request.getfixturevalue("postgres_url")
    run_pages(page, **more)


@pytest.mark.timeout(600)
def test_spark_code_runs(run_pages):
    """All of it in one session: Spark takes longer to start than a page to run."""
    run_pages(*SPARK, DELTASQL_SPARK_JARS=str(JARS), **ENVIRONMENT)


@pytest.mark.parametrize("page", reference.PAGES)
def test_references_are_those_of_the_code(page):
    written = (ROOT / "docs" / page).read_text()
    assert written == reference.made(page), f"run: make reference (docs/{page} is out of date)"


def test_every_language_is_known():
    known = {"python", "console", "sh", "sql", "toml", "json", "yaml"}
    found = {block.language for page in PAGES for block in blocks_of(page)}
    assert found <= known
