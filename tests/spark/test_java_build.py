"""The jar is what the sources say, whatever compiler there is."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest

from deltasql.spark.catalog.attaching import JAR
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.sizes import FULL

SCRIPT = Path(__file__).parents[2] / "java" / "build.py"


def names(jar: Path) -> set[str]:
    with zipfile.ZipFile(jar) as archive:
        return {name for name in archive.namelist() if "$" not in name}


@pytest.mark.parametrize("compiler", ["default", "ecj"] if FULL else ["default"])
def test_the_jar_is_what_the_sources_say(compiler, tmp_path, monkeypatch):
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    monkeypatch.setenv("DELTASQL_SPARK_JARS", str(spark_part.JARS))
    found = importlib.util.spec_from_file_location("java_build", SCRIPT)
    build = importlib.util.module_from_spec(found)
    found.loader.exec_module(build)
    # Eclipse's, which needs no more than a JRE.
    chosen = build.ecj(tmp_path / "ecj") if compiler == "ecj" else None
    made = build.build(tmp_path / "made.jar", chosen)
    assert names(made) == names(JAR)
    assert "io/deltasql/spark/LakePlugin.class" in names(made)
    if chosen is None:
        assert made.read_bytes() == JAR.read_bytes(), "the package's jar is old: run make jar"
