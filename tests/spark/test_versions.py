"""The Delta and the Spark before: the same assumptions hold there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.sizes import FULL
from tests.spark.conftest import SOURCE


@pytest.mark.parametrize(
    "assumptions",
    [
        pytest.param(["test_gateway.py", "sql/test_assumptions.py"], id="session"),
        *([pytest.param(["plugin/test_process.py"], id="plugin")] * FULL),
    ],
)
def test_assumptions_hold_with_the_delta_before(assumptions):
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYTEST"))},
        "PYTHONPATH": f"{spark_part.OLDER}:{SOURCE}",
        "DELTASQL_TEST_JARS": str(spark_part.OLDER_JARS),
    }
    tests = [str(Path(__file__).parent / name) for name in assumptions]
    quiet = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, *tests],
        env=environment,
        cwd=SOURCE.parent,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
