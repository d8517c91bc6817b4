"""Local files for Spark: Hadoop's own way starts a process, `chmod`, for each file that it makes.

Another one, in a jar of its own, sets the same permissions without.
"""

from __future__ import annotations

from pathlib import Path

from tests.parts.process import TOOLS

JARS = TOOLS.parent / "jars-local"
ARTIFACT = ("com.globalmentor", "hadoop-bare-naked-local-fs", "0.1.0")


def class_path() -> list[Path]:
    """The jar, which goes before Spark's own; nothing where it is missing."""
    return sorted(JARS.glob("*.jar"))


def settings() -> dict[str, str]:
    """Settings of a session that makes local files without starting processes, if it can."""
    found = class_path()
    if not found:
        return {}
    return {
        # Not spark.jars: spark-submit needs the class before it looks at those.
        "spark.driver.extraClassPath": str(found[0]),
        "spark.executor.extraClassPath": str(found[0]),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        # Delta's default renames a commit file by way of `readlink`, a process as well.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    }
