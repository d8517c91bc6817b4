"""Delta Spark: PySpark in an environment of its own, and Delta's jars, fetched once.

The tests talk to it through a child process (`spark_reader.py`), so that pytest's own
environment does without PySpark's 400 MB.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from tests.parts import spark_archive, spark_files
from tests.parts.locked import pip_packages, run
from tests.parts.process import TOOLS, PartMissingError, apt_install
from tests.parts.spark_settings import PLAIN_JAVA, SMALL

ROOT = Path(__file__).parents[2]
FOLDER = TOOLS.parent / "spark"
PYTHON = FOLDER / "bin" / "python"
JARS = TOOLS.parent / "jars"
ARTIFACT = ("io.delta", "delta-spark_4.2_2.13", "4.4.0")
# Whatever else Delta depends on, PySpark brings along.
GROUPS = "io.delta,io.unitycatalog"
# The Delta and the Spark before: what is assumed about their classes is tested with both.
OLDER = TOOLS.parent / "spark41"
OLDER_JARS = TOOLS.parent / "jars41"
OLDER_ARTIFACT = ("io.delta", "delta-spark_4.1_2.13", "4.3.0")
# Spark's client for S3, with the modules of the SDK that it calls instead of all of them.
S3A_JARS = TOOLS.parent / "jars-s3a"
_AWS = "software.amazon.awssdk"
S3A_ARTIFACTS = (
    ("org.apache.hadoop", "hadoop-aws", "3.5.0"),
    *((_AWS, module, "2.35.4") for module in ("s3", "s3-transfer-manager", "sts", "apache-client")),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)
READER = Path(__file__).with_name("spark_reader.py")

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>deltasql</groupId><artifactId>jars</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = """<dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}
</dependency>
"""
# What Hadoop's client for S3 depends on is the SDK's 640 MB bundle, and what PySpark has; the local
# file system has nothing but the latter.
_WITHOUT_DEPENDENCIES = ("hadoop-aws", spark_files.ARTIFACT[1])
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def find() -> str:
    """The Python that has PySpark."""
    # Complete ones only: both folders get their name when all is in them.
    jars = (JARS, OLDER_JARS, S3A_JARS)
    whole = PYTHON.exists() and OLDER.is_dir() and all(folder.is_dir() for folder in jars)
    if not whole or shutil.which("java") is None:
        raise PartMissingError("Delta Spark is not installed; run: make parts")
    return str(PYTHON)


def local_files() -> dict[str, str]:
    """Settings of a session that makes local files without starting processes."""
    found = spark_files.settings()
    if not found:
        raise PartMissingError("Hadoop's bare local file system is not there; run: make parts")
    return found


def ensure() -> None:
    """Install PySpark and fetch the jars unless they are there."""
    if shutil.which("java") is None:
        apt_install("openjdk-17-jre-headless")
    if not PYTHON.exists():
        _install_pyspark()
    if not OLDER.is_dir():
        _install_older()
    if shutil.which("mvn") is None:
        apt_install("maven")
    _fetch_jars(JARS, [ARTIFACT], f"-DincludeGroupIds={GROUPS}")
    _fetch_jars(OLDER_JARS, [OLDER_ARTIFACT], f"-DincludeGroupIds={GROUPS}")
    _fetch_jars(S3A_JARS, S3A_ARTIFACTS)
    _fetch_jars(spark_files.JARS, [spark_files.ARTIFACT])
    _make_archives()


def _make_archives() -> None:
    """One for each Spark that tests start."""
    files = spark_files.class_path()
    ours = spark_archive.path(*files)
    spark_archive.ensure(ours, JARS)
    older = spark_archive.path(*files, folder=OLDER / "pyspark" / "jars")
    spark_archive.ensure(older, OLDER_JARS, PYTHONPATH=f"{OLDER}:{ROOT / 'src'}")
    readers = _reader_archive()
    if not readers.exists():
        with tempfile.TemporaryDirectory(prefix="deltasql-archive-") as work:
            _make_reader_archive(readers, Path(work))
    spark_archive.keep(ours, older, readers)


def _reader_class_path() -> list[Path]:
    """Delta and Spark's client for S3, without what Spark itself has newer, and local files."""
    newer = ("netty", "commons-", "slf4j")
    client = [jar for jar in S3A_JARS.glob("*.jar") if not jar.name.startswith(newer)]
    return [*sorted(JARS.glob("*.jar")), *sorted(client), *spark_files.class_path()]


def _reader_archive() -> Path:
    (folder,) = FOLDER.glob("lib/python*/site-packages/pyspark/jars")
    return spark_archive.path(*_reader_class_path(), folder=folder)


def _make_reader_archive(made: Path, work: Path) -> None:
    java: list[psutil.Process] = []
    with Spark(work, spark_archive.making(made)) as spark, suppress(RuntimeError, SparkError):
        spark.sql(*spark_archive.STATEMENTS)
        spark.read(work / "warehouse" / "a")
        java = psutil.Process(spark.pid).children(recursive=True)
    # The archive is written while Java ends.
    psutil.wait_procs(java, timeout=120)
    if not made.exists():
        log = spark.log.read_text(errors="replace")
        print(f"no archive of the readers' classes: {log[-500:]}", file=sys.stderr)


def _install_pyspark() -> None:
    half = FOLDER.with_name("spark.half")
    shutil.rmtree(half, ignore_errors=True)
    uv = str(ROOT / ".ci" / "uv")
    run([uv, "venv", "--quiet", "--relocatable", "--python", str(_our_python()), str(half)])
    into = ["--python", str(half / "bin" / "python")]
    run([uv, "pip", "install", "--quiet", "--no-deps", *into, *pip_packages("spark")])
    shutil.rmtree(FOLDER, ignore_errors=True)
    half.rename(FOLDER)


def _our_python() -> Path:
    return ROOT / ".venv" / "bin" / "python"


def _install_older() -> None:
    half = OLDER.with_name("spark41.half")
    shutil.rmtree(half, ignore_errors=True)
    uv = str(ROOT / ".ci" / "uv")
    into = ["--python", str(_our_python()), "--target", str(half)]
    run([uv, "pip", "install", "--quiet", "--no-deps", *into, *pip_packages("spark41")])
    half.rename(OLDER)


def _fetch_jars(folder: Path, artifacts: Sequence[tuple[str, str, str]], *options: str) -> None:
    if folder.is_dir():
        return
    half = folder.with_name(f"{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    wanted = [
        _DEPENDENCY.format(*item, _ALONE if item[1] in _WITHOUT_DEPENDENCIES else "")
        for item in artifacts
    ]
    # A repository of its own: one half-filled under ~/.m2 confuses Ivy and Maven alike.
    with tempfile.TemporaryDirectory(prefix="deltasql-maven-") as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_POM.format("".join(wanted)))
        where = [f"-Dmaven.repo.local={work}/m2", f"-DoutputDirectory={half}"]
        what = ["-DincludeScope=runtime", *options]
        run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *where, *what])
    _check_digests(folder.name, half)
    half.rename(folder)


def _check_digests(name: str, folder: Path) -> None:
    """What Maven brought is what `jars.sha256` says, all of it."""
    lines = Path(__file__).with_name("jars.sha256").read_text().splitlines()
    pinned = {path: digest for digest, path in map(str.split, lines)}
    found = {
        f"{name}/{jar.name}": hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in folder.glob("*.jar")
    }
    wanted = {path: digest for path, digest in pinned.items() if path.startswith(f"{name}/")}
    if found != wanted:
        strange = sorted(path for path, _ in found.items() ^ wanted.items())
        raise PartMissingError(f"not as tests/parts/jars.sha256 says: {', '.join(strange[:5])}")


class SparkError(Exception):
    """Spark refused; the message is its own."""


class Spark:
    """One Spark session in a child process. It starts in the background, and answers in turn."""

    def __init__(self, directory: Path, java: str | None = None) -> None:
        self.log = directory / "spark.log"
        environment = {
            **os.environ,
            "TZ": "UTC",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(directory),
            "PYSPARK_PYTHON": find(),
        }
        # One of another Spark would be taken before ours.
        environment.pop("SPARK_HOME", None)
        before = _reader_class_path()
        if java is None:
            java = spark_archive.using(_reader_archive())
        settings = {
            **SMALL,
            "spark.driver.extraClassPath": ":".join(map(str, before)),
            "spark.driver.extraJavaOptions": f"{PLAIN_JAVA} {java}",
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [find(), str(READER), str(directory), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=environment,
                text=True,
            )

    @property
    def pid(self) -> int:
        """The Python process, whose child is Java."""
        return self._process.pid

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send one request (see `spark_reader.py`) and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Spark ended:\n{self.log.read_text(errors='replace')[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SparkError(answer["error"])
        return answer

    def reach(self, settings: Mapping[str, str]) -> None:
        """Let Hadoop know an object store."""
        self.ask({"do": "reach", "settings": dict(settings)})

    def read(self, path: Path | str, version: int | None = None) -> dict[str, Any]:
        """Schema, rows and files of a table at a version, by default the newest."""
        return self.ask({"do": "read", "path": str(path), "version": version})

    def files(self, path: Path, version: int | None = None) -> list[str]:
        """The table's files, without reading any: their paths under the table's root."""
        found = self.ask({"do": "files", "path": str(path), "version": version})
        files: list[str] = found["files"]
        return files

    def append(self, path: Path) -> None:
        """Write a table's own rows to it once more."""
        self.ask({"do": "append", "path": str(path)})

    def count(self, path: Path) -> int:
        """How many rows there are, all of them read."""
        found: int = self.ask({"do": "count", "path": str(path)})["count"]
        return found

    def sql(self, *statements: str) -> None:
        """Run statements in turn."""
        self.ask({"do": "sql", "statements": statements})

    def close(self) -> None:
        """End the session; Spark's JVM ends with its Python."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
