"""What Spark requires: Java, PySpark, Delta's jars, and versions that fit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from deltasql.errors import ConfigError
from deltasql.spark.sessions.failures import no_native_route

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasql.spark.native.gateway import Gateway

OLDEST_JAVA = 17
# The artifact and version of Delta for each release of Spark.
DELTA_FOR_SPARK = {
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.3.0",
}
TESTED_DELTA = ("4.3", "4.4")
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


def check_java() -> int:
    """The version of the Java that Spark will run on; raises if there is none that fits."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = f"install Java {OLDEST_JAVA} or newer, or set JAVA_HOME to one"
    if program is None or not Path(program).exists():
        where = f"JAVA_HOME is {home}" if home else "there is no java on the PATH"
        raise ConfigError("Spark needs Java, and there is none", cause=where, remedy=remedy)
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    version = java_version(done.stderr + done.stdout)
    if version is None:
        said = (done.stderr or done.stdout).strip()[:200] or f"it ended with {done.returncode}"
        raise ConfigError(f"{program} does not say its version", cause=said, remedy=remedy)
    if version < OLDEST_JAVA:
        raise ConfigError(
            f"Spark can't run on Java {version}",
            cause=f"{program} is Java {version}, and Spark 4 needs {OLDEST_JAVA}",
            remedy=remedy,
        )
    return version


def java_version(text: str) -> int | None:
    """The major version in the output of `java -version`; 1.8 is 8."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def spark_release() -> str:
    """The release of the installed PySpark, such as `4.2`."""
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise ConfigError(
            "PySpark is not installed",
            cause=str(error),
            remedy="pip install 'deltasql[spark]'",
        ) from None
    return ".".join(pyspark.__version__.split(".")[:2])


def delta_package() -> str:
    """The Maven coordinates of the Delta that fits the installed PySpark."""
    release = spark_release()
    if release not in DELTA_FOR_SPARK:
        raise ConfigError(
            f"no Delta is known for PySpark {release}",
            cause=f"deltasql was tested with PySpark {', '.join(DELTA_FOR_SPARK)}",
            remedy="pip install 'deltasql[spark]'",
        )
    return DELTA_FOR_SPARK[release]


def check_native(spark: SparkSession, gateway: Gateway) -> None:
    """Raise unless Delta's reader and writer can be used as tested."""
    version = gateway.delta_version
    if not version:
        raise no_native_route(
            "Delta's jars are not on its class path",
            "start it with deltasql.spark.session(), or with "
            f"spark.jars.packages={delta_package()}",
        )
    if not version.startswith(tuple(f"{tested}." for tested in TESTED_DELTA)):
        raise no_native_route(
            f"it has Delta {version}, and deltasql was tested with {' and '.join(TESTED_DELTA)}",
            f"start it with spark.jars.packages={delta_package()}",
        )
    extensions = str(spark.conf.get("spark.sql.extensions", "") or "")
    if EXTENSION not in extensions.split(","):
        raise no_native_route(
            "spark.sql.extensions lacks Delta's: deletion vectors would be ignored",
            f"start it with spark.sql.extensions={EXTENSION}",
        )
