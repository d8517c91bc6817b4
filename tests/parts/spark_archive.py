"""Spark's classes as the JVM has them after loading: a third of the work of each short session.

`make parts` makes an archive for each Spark, from a session that does a little of everything. Java
checks that it fits the jars and itself, and does without it where it does not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.parts.process import TOOLS

ROOT = Path(__file__).parents[2]
_NAME = "spark-classes"
# Neither says anything if the archive does not fit.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
STATEMENTS = (
    "CREATE TABLE a (id BIGINT, v STRING) USING delta",
    "INSERT INTO a VALUES (1, 'a'), (2, 'b')",
    "SELECT v, count(*) FROM a GROUP BY v ORDER BY v",
    "UPDATE a SET v = 'u' WHERE id = 2",
    "DELETE FROM a WHERE id = 1",
    (
        "MERGE INTO a USING (SELECT 2L AS id, 'm' AS v) s ON a.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ),
    "OPTIMIZE a",
    "DESCRIBE HISTORY a",
)


def using(archive: Path) -> str:
    """Java's options that use an archive, none where it is missing."""
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if archive.exists() else ""


def making(archive: Path) -> str:
    """Java's options that make an archive; it is written while Java ends."""
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}"


def path(*class_path: Path, folder: Path | None = None) -> Path:
    """Where the archive for the jars in PySpark's folder, and those before them, is."""
    folder = folder or _own_folder()
    jars = [*folder.iterdir(), *class_path]
    known = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    before = [str(jar) for jar in class_path]
    return TOOLS.parent / f"{_NAME}-{_digest((folder, before))}-{_digest(sorted(known))}.jsa"


def _own_folder() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _digest(value: object) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:12]


def ensure(made: Path, jars: Path, **variables: str) -> None:
    """Make the archive unless it is there; without one tests are slower, and that is all."""
    if made.exists():
        return
    program = [sys.executable, "-m", "tests.parts.spark_archive", str(jars), str(made)]
    try:
        said = subprocess.run(
            program, cwd=ROOT, env={**os.environ, **variables},
            capture_output=True, text=True, timeout=300, check=False,
        ).stderr  # fmt: skip
    except subprocess.TimeoutExpired as late:
        said = str(late)
    if not made.exists():
        print(f"no archive of Spark's classes: {said[-500:]}", file=sys.stderr)


def keep(*archives: Path) -> None:
    """Delete all others: a hundred megabytes each, for jars that are not there any more."""
    for old in set(TOOLS.parent.glob(f"{_NAME}-*.jsa")) - set(archives):
        old.unlink()


def main(jars: str, made: str) -> None:
    import deltasql.spark
    from tests.parts.spark_settings import PLAIN_JAVA, SMALL

    with tempfile.TemporaryDirectory(prefix="deltasql-archive-") as work:
        config = {
            **SMALL,
            "spark.driver.extraJavaOptions": f"{PLAIN_JAVA} {making(Path(made))}",
            "spark.sql.warehouse.dir": f"{work}/warehouse",
            "spark.local.dir": work,
            "spark.log.level": "OFF",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
        session = deltasql.spark.session("archive", master="local[2]", jars=jars, config=config)
        for statement in STATEMENTS:
            session.sql(statement).collect()
        gateway = session.sparkContext._gateway
        session.stop()
        # The archive is written while Java ends.
        process = gateway.proc
        process.stdin.close()
        process.wait(timeout=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
