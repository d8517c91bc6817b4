"""Delta's jars: resolved once into a folder of our own, and found there ever after."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deltasql.errors import ConfigError
from deltasql.spark.environment import delta_package

VARIABLE = "DELTASQL_SPARK_JARS"
# Whatever else Delta depends on, Spark brings along.
_OURS = ("io.delta_", "io.unitycatalog_")
_PATIENCE = 600

# Spark's own resolver, which knows the mirrors and proxies of the machine, in a child process.
_RESOLVE = """
import sys
from pyspark.sql import SparkSession
SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(
    "spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate().stop()
"""


def find(folder: str | Path | None = None) -> list[Path]:
    """The jars in a folder, by default of DELTASQL_SPARK_JARS or resolved from Maven."""
    named = folder or os.environ.get(VARIABLE)
    if named is None:
        return _resolved()
    found = sorted(Path(named).glob("*.jar"))
    if not any("delta-spark" in jar.name for jar in found):
        raise ConfigError(
            f"there is no Delta in {named}",
            cause="the folder is missing or holds no delta-spark jar",
            remedy=f"put the jars of {delta_package()} there, or leave {VARIABLE} and jars= out",
        )
    return found


def _resolved() -> list[Path]:
    package = delta_package()
    folder = _cache() / package.replace(":", "_")
    done = folder / "complete"
    if not done.exists():
        _resolve(package, folder)
        done.touch()
    return sorted(jar for jar in (folder / "jars").glob("*.jar") if jar.name.startswith(_OURS))


def _resolve(package: str, folder: Path) -> None:
    started = time.monotonic()
    _tell(f"deltasql: fetching {package}, once …")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", _RESOLVE, package, str(folder)], stdout=log, stderr=log
        )
        while child.poll() is None:
            if time.monotonic() - started > _PATIENCE:
                child.kill()
            time.sleep(0.2)
        if child.returncode != 0:
            log.seek(0)
            raise ConfigError(
                f"{package} could not be fetched",
                cause=_reason(log.read()),
                remedy=f"let this machine reach a Maven repository, or set {VARIABLE} to a "
                "folder with the jars",
            )
    _tell(f"deltasql: fetched {package} in {time.monotonic() - started:.0f} s")


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "unresolved dependency" in line or "not found" in line]
    return (telling or lines or ["the resolver said nothing"])[-1][:300]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "deltasql" / "jars"


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
