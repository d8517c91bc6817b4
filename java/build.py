"""Compile the Java sources into the jar that the package carries: `python java/build.py`.

With `javac`, or on a machine that has only a JRE with Eclipse's compiler from Maven Central.
Same sources, same bytes: times are left out of the archive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
JAR = HERE.parent / "src" / "deltasql" / "spark" / "catalog" / "deltasql-spark.jar"
TOOLS = HERE.parent / ".tools"
RELEASE = "17"
ECJ = "org.eclipse.jdt:ecj:3.40.0"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(jar: Path = JAR, compiler: list[str] | None = None) -> Path:
    """Make the jar, by default with the compiler that is there."""
    sources = sorted(str(path) for path in (HERE / "io").rglob("*.java"))
    with tempfile.TemporaryDirectory(prefix="deltasql-classes-") as work:
        options = ["-nowarn", "-proc:none", "-cp", _class_path(), "-d", work]
        subprocess.run([*(compiler or _compiler()), *options, *sources], check=True)
        _pack(Path(work), jar)
    return jar


def _class_path() -> str:
    """Spark's and Delta's jars, of the versions that the package is tested with."""
    import pyspark

    from deltasql.spark.sessions import jars

    spark = Path(pyspark.__file__).parent / "jars"
    # One by one: Eclipse's compiler knows no wildcards.
    return os.pathsep.join(map(str, [*sorted(spark.glob("*.jar")), *jars.find()]))


def _compiler() -> list[str]:
    javac = shutil.which("javac")
    if javac is not None:
        return [javac, "--release", RELEASE]
    return ecj()


def ecj(folder: Path = TOOLS / "ecj") -> list[str]:
    """Eclipse's compiler, which a JRE runs; fetched by the resolver that fetches Delta's jars."""
    from deltasql.spark.sessions.jars import RESOLVE

    found = list((folder / "jars").glob("*ecj*.jar"))
    if not found:
        subprocess.run([sys.executable, "-c", RESOLVE, ECJ, "", str(folder)], check=True)
        found = list((folder / "jars").glob("*ecj*.jar"))
    # Not --release: a JRE lacks the lists of what older ones had.
    return ["java", "-jar", str(found[0]), f"-{RELEASE}"]


def _pack(classes: Path, jar: Path) -> None:
    # Beside it first: a driver that runs with the old one has it open.
    half = jar.with_suffix(".half")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            name = path.relative_to(classes).as_posix()
            info = zipfile.ZipInfo(name, _EPOCH)
            archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
    half.rename(jar)


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
