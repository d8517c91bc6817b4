"""Spark's classes as the JVM has them after loading: a third of the work of each short session.

`make parts` makes the archive from a session that does a little of everything. Java checks that
it fits the jars and itself, and does without it where it does not.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.parts.process import TOOLS

ROOT = Path(__file__).parents[2]
_NAME = "spark-classes"
# Neither says anything if the archive does not fit.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_STATEMENTS = (
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


def options() -> str:
    """Java's options that use the archive, none without one."""
    found = path()
    return f"-XX:SharedArchiveFile={found} {_QUIET}" if found.exists() else ""


def path() -> Path:
    """Where the archive for these jars is."""
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    known = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in folder.iterdir()]
    return TOOLS.parent / f"{_NAME}-{_digest(folder)}-{_digest(sorted(known))}.jsa"


def _digest(value: object) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:12]


def ensure(jars: Path) -> None:
    """Make the archive unless it is there; without one tests are slower, and that is all."""
    made = path()
    if made.exists():
        return
    for old in made.parent.glob(f"{made.name.rpartition('-')[0]}-*.jsa"):
        old.unlink()
    program = [sys.executable, "-m", "tests.parts.spark_archive", str(jars), str(made)]
    done = subprocess.run(
        program, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if not made.exists():
        print(f"no archive of Spark's classes: {done.stderr[-500:]}", file=sys.stderr)


def main(jars: str, made: str) -> None:
    import deltasql.spark
    from tests.parts.spark_settings import PLAIN_JAVA, SMALL

    java = f"{PLAIN_JAVA} {_QUIET} -XX:ArchiveClassesAtExit={made}"
    with tempfile.TemporaryDirectory(prefix="deltasql-archive-") as work:
        config = {
            **SMALL,
            "spark.driver.extraJavaOptions": java,
            "spark.sql.warehouse.dir": f"{work}/warehouse",
            "spark.local.dir": work,
            "spark.log.level": "OFF",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
        session = deltasql.spark.session("archive", master="local[2]", jars=jars, config=config)
        for statement in _STATEMENTS:
            session.sql(statement).collect()
        gateway = session.sparkContext._gateway
        session.stop()
        # The archive is written while Java ends.
        process = gateway.proc
        process.stdin.close()
        process.wait(timeout=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
