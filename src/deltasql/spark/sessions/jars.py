"""Delta's jars, and those for object stores: resolved once into a folder of our own, and found
there afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from deltasql.errors import ConfigError
from deltasql.spark.sessions import jar_digests
from deltasql.spark.sessions.environment import delta_package
from deltasql.spark.sessions.filesystems import Packages, packages_for

VARIABLE = "DELTASQL_SPARK_JARS"
_OURS = ("io.delta_", "io.unitycatalog_")
# Spark includes Delta's other dependencies: 73 MB that need no download.
_NOT_OURS = "com.*:*,commons-*:*,io.airlift:*,jakarta.*:*,javax.*:*,net.*:*,org.*:*"
# What Ivy says about a package that it could not get, the most informative last.
_INFORMATIVE = ("Server access error", "not found", "unresolved dependency")
_PATIENCE = 600
_NEWS = 10
# A Spark Connect remote, and the arguments that a program was submitted with.
_NOT_FOR_THE_CHILD = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")

# Spark's own resolver, in a child process: it knows this machine's settings for Ivy
# (`spark.jars.ivySettings` and `spark.jars.repositories` of spark-defaults.conf).
RESOLVE = """
import sys
from pyspark.sql import SparkSession
package, excludes, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars.packages", package)
builder = builder.config("spark.jars.excludes", excludes) if excludes else builder
builder.config("spark.jars.ivy", folder).getOrCreate().stop()
"""


def find(folder: str | Path | None = None) -> list[Path]:
    """The jars in a folder, by default from DELTASQL_SPARK_JARS or resolved from Maven."""
    named = folder or os.environ.get(VARIABLE)
    if named is None:
        return _resolved()
    found = _jars_in(Path(named))
    if not found:
        raise ConfigError(
            f"there is no Delta in {named}",
            cause="the folder is missing or holds no delta-spark jar",
            remedy=f"put the jars of {delta_package()} there, or leave {VARIABLE} and jars= out",
        )
    return found


def known() -> Path | None:
    """The folder that has Delta's jars, without fetching them; None if there is none yet."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return find(named)[0].parent
    folder = _cache() / delta_package().replace(":", "_")
    return folder if _jars_in(folder) else None


def find_client(location: str | None, folder: str | Path | None = None) -> list[Path]:
    """The jars with which Spark reaches a location, resolved from Maven; none if Spark has them, or
    if a folder with all jars was named.
    """
    packages = packages_for(location)
    if packages is None or folder or os.environ.get(VARIABLE):
        return []
    where = _cache() / packages.wanted[0].replace(":", "_")
    if not where.is_dir():
        _resolve_client(packages, where)
    return sorted(where.glob("*.jar"))


def _resolve_client(packages: Packages, folder: Path) -> None:
    """Fill the folder with what Spark lacks in any version."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    there = {_artifact(jar) for jar in _spark_jars()}
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as work:
        _fetch(",".join(packages.wanted), Path(work), excludes=",".join(packages.without))
        ready = Path(work) / "ready"
        ready.mkdir()
        for jar in (Path(work) / "jars").glob("*.jar"):
            # Ivy prefixes the name with the group.
            name = jar.name.partition("_")[2] or jar.name
            if _artifact(Path(name)) not in there:
                if packages.is_known:
                    jar_digests.check(jar)
                jar.rename(ready / name)
        with suppress(OSError):
            ready.rename(folder)


def _artifact(jar: Path) -> str:
    """A jar's name without its version."""
    return re.split(r"-\d", jar.stem, maxsplit=1)[0]


def _spark_jars() -> list[Path]:
    import pyspark

    return list((Path(pyspark.__file__).parent / "jars").glob("*.jar"))


def _jars_in(folder: Path) -> list[Path]:
    """All jars of a folder that has Delta; none of one that hasn't."""
    found = sorted(folder.glob("*.jar"))
    return found if any("delta-spark" in jar.name for jar in found) else []


def _resolved() -> list[Path]:
    package = delta_package()
    folder = _cache() / package.replace(":", "_")
    found = _jars_in(folder)
    if not found:
        _resolve(package, folder)
        found = _jars_in(folder)
    return found


def _resolve(package: str, folder: Path) -> None:
    """Fill a folder beside it first, so that it is never half complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as work:
        _fetch(package, Path(work))
        ready = Path(work) / "ready"
        ready.mkdir()
        for jar in (Path(work) / "jars").glob("*.jar"):
            if jar.name.startswith(_OURS):
                jar_digests.check(jar)
                jar.rename(ready / jar.name)
        if not _jars_in(ready):
            raise _not_fetched(package, "the resolver found no delta-spark jar")
        if not _jars_in(folder):
            shutil.rmtree(folder, ignore_errors=True)
        # Another process may have been faster; its jars are the same.
        with suppress(OSError):
            ready.rename(folder)


def _fetch(package: str, work: Path, *, excludes: str = _NOT_OURS) -> None:
    started = time.monotonic()
    # The first of several; the others come with it.
    shown = package.partition(",")[0]
    _tell(f"deltasql: fetching {shown}, once …")
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", RESOLVE, package, excludes, str(work)],
            stdout=log,
            stderr=log,
            env={key: text for key, text in os.environ.items() if key not in _NOT_FOR_THE_CHILD},
        )
        try:
            _watch(child, work, started)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if child.returncode != 0:
            raise _not_fetched(package, _reason(log, time.monotonic() - started))
    _tell(f"deltasql: fetched {shown} in {time.monotonic() - started:.0f} s")


def _watch(child: subprocess.Popen[bytes], work: Path, started: float) -> None:
    """Wait for the child, and report its progress now and then."""
    told = started
    while child.poll() is None:
        now = time.monotonic()
        if now - started > _PATIENCE:
            return
        if now - told > _NEWS:
            told = now
            _tell(f"deltasql: … {_size(work) >> 20} MB after {now - started:.0f} s")
        time.sleep(0.2)


def _size(folder: Path) -> int:
    size = 0
    for item in folder.rglob("*"):
        with suppress(OSError):  # renamed in the meantime
            size += item.stat().st_size
    return size


def _reason(log: IO[str], seconds: float) -> str:
    """Why there are no jars, in the resolver's own words if it has any."""
    if seconds > _PATIENCE:
        return f"it took longer than {_PATIENCE} s"
    log.seek(0)
    lines = [line.strip() for line in log.read().splitlines() if line.strip()]
    informative = [line for line in lines if any(words in line for words in _INFORMATIVE)]
    return (informative or lines or ["the resolver said nothing"])[-1][:300]


def _not_fetched(package: str, cause: str) -> ConfigError:
    return ConfigError(
        f"{package} could not be fetched",
        cause=cause,
        remedy=f"let this machine reach a Maven repository, or set {VARIABLE} to a folder "
        "with the jars",
    )


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "deltasql" / "jars"


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
