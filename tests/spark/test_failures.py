"""What is missing or lost says so, and does no damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
import deltasql.spark
from deltasql.errors import ConfigError
from deltasql.spark.sessions import environment, jars
from tests.parts import spark as spark_part
from tests.sizes import FULL
from tests.spark.conftest import SOURCE


def fake_java(folder: Path, says: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return folder


def test_java_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="there is none") as caught:
        deltasql.spark.session()
    assert "install Java 17" in caught.value.remedy
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no java on the PATH"):
        deltasql.spark.session()


@pytest.mark.parametrize("says", ['openjdk version "11.0.2" 2019', 'java version "1.8.0_292"'])
def test_java_is_too_old(monkeypatch, tmp_path, says):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, says)))
    with pytest.raises(ConfigError, match=r"can't run on Java (11|8)"):
        deltasql.spark.session()


def test_java_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "what?")))
    with pytest.raises(ConfigError, match="does not say its version"):
        environment.check_java()


def test_jars_are_missing(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="there is no Delta in") as caught:
        jars.find(tmp_path)
    assert "io.delta:delta-spark" in caught.value.remedy
    monkeypatch.setenv(jars.VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="absent"):
        deltasql.spark.session()


class Gateway:
    """A gateway that says which Delta there is."""

    def __init__(self, version: str) -> None:
        self.delta_version = version


@pytest.mark.parametrize(
    ("version", "about"),
    [("", "not on its class path"), ("3.2.0", "tested with"), ("5.0.0", "tested with")],
)
def test_delta_is_absent_or_another_one(spark, version, about):
    with pytest.raises(ConfigError, match=about) as caught:
        environment.check_native(spark, Gateway(version))  # type: ignore[arg-type]
    assert "spark.jars.packages" in caught.value.remedy


def test_extension_is_missing(spark):
    class Session:
        class conf:  # noqa: N801
            @staticmethod
            def get(_key, default=None):
                return default

    with pytest.raises(ConfigError, match="deletion vectors would be ignored"):
        environment.check_native(Session(), Gateway("4.4.0"))  # type: ignore[arg-type]


LOST = """
import os, signal, sys
import deltasql, deltasql.spark
from tests.spark.conftest import quick
from pathlib import Path
url, location, jars, work = sys.argv[1:]
spark = deltasql.spark.session("lost", master="local[2]", jars=jars, config=quick(Path(work)))
spark.sparkContext.setLogLevel("OFF")
db = deltasql.spark.attach(spark, deltasql.connect(url, location=location))
db.write(spark.range(3), "lost.t")
deltasql.Table.commit_write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
db.write(spark.range(3, 9), "lost.t")
"""


if FULL:
    # Streams that are killed before they commit (test_stream_failures.py) leave such files, too.

    def test_driver_lost_after_the_files_were_written(tmp_path, spark):
        url, data = f"sqlite:///{tmp_path / 'lake.db'}", tmp_path / "data"
        done = subprocess.run(
            [sys.executable, "-c", LOST, url, data.as_uri(), str(spark_part.JARS), str(tmp_path)],
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
        with deltasql.connect(url, location=data.as_uri()) as lake:
            table = lake.table("lost.t")
            known = set(table.snapshot().files().column("path").to_pylist())
            there = {path.name for path in (data / "lost" / "t").glob("*.parquet")}
            assert table.version == 0
            # What was written is there, is not visible, and waits for vacuum.
            assert known < there
            db = deltasql.spark.attach(spark, lake)
            assert db.read("lost.t").count() == 3
            db.write(spark.range(1), "lost.t")
            assert db.read("lost.t").count() == 4
