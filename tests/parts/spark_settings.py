"""Settings of Spark for small tables: what is worked out for large ones costs more than it saves.

`make test-full` lets Spark compile expressions, as it does for users.
"""

from __future__ import annotations

from tests.parts import spark_archive, spark_files
from tests.sizes import FULL

# What the second compiler would win later it costs now. With one compiler the JVM keeps 48 MB of
# compiled code, Spark has more, and would compile it over and over.
PLAIN_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m "
    "-XX:NewRatio=1 -XX:MetaspaceSize=300m"
)
_ARCHIVE = spark_archive.using(spark_archive.path(*spark_files.class_path()))
JAVA = f"{PLAIN_JAVA} {_ARCHIVE}".strip()
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"

SMALL = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    **({} if FULL else {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}),
    # Each execution is described in full for a page that nobody opens.
    "spark.sql.ui.explainMode": "simple",
    # Delta replays a log in 50 partitions by default, which is a second for each small table.
    "spark.databricks.delta.snapshotPartitions": "1",
    **spark_files.settings(),
    # Other ways to rename a local file start a process, `readlink`, for each path.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager"
    ),
}
# For programs that start a session of their own, as a user would.
ENVIRONMENT = {
    "JDK_JAVA_OPTIONS": JAVA,
    "PYSPARK_SUBMIT_ARGS": " ".join(
        [
            *(f"--conf {key}={value}" for key, value in SMALL.items() if " " not in value),
            "pyspark-shell",
        ]
    ),
}
