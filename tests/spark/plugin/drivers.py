"""Drivers without PySpark: what they are started with, and the Python that they start."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pyspark

from deltasql.spark.plugin.configuring import PLUGIN
from tests.parts import spark as spark_part
from tests.parts.process import LoopbackProcess, free_port
from tests.parts.spark_settings import JAVA, SMALL
from tests.sizes import FULL

HOME = Path(pyspark.__file__).parent
CONNECT = "org.apache.spark.sql.connect.SparkConnectPlugin"
THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
OURS = Path(pyspark.__file__).parents[1] / "deltasql"
PROCESS = Path(__file__).with_name("process.py")
EXECUTORS = 2 if FULL else 1


def jars(*more: Path) -> str:
    from deltasql.spark.catalog.attaching import jar

    found = [*spark_part.JARS.glob("*.jar"), jar(), *more]
    return ",".join(str(item) for item in found)


def python(work: Path, **variables: str) -> str:
    """A Python that notes its process, and dies when it is told to; see `process.py`."""
    script = work / "python"
    given = "".join(f"export {name}={value}\n" for name, value in variables.items())
    run = f'exec {sys.executable} {PROCESS} {work} "$@"'
    script.write_text(f"#!/bin/sh\necho $$ >> {work}/pids\n{given}{run}\n")
    script.chmod(0o755)
    return str(script)


def processes(work: Path) -> list[int]:
    """Every Python process that was started, in turn."""
    return [int(line) for line in (work / "pids").read_text().split()]


def is_gone(pid: int) -> bool:
    """Whether a process ends, if it is given a moment."""
    try:
        psutil.Process(pid).wait(timeout=15)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def settings(work: Path) -> dict[str, str]:
    """Settings for small tables on a machine with two cores."""
    return {
        **SMALL,
        "spark.jars": jars(),
        "spark.plugins": PLUGIN,
        "spark.deltasql.python": python(work),
        "spark.driver.memory": "1g",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.local.dir": str(work),
    }


def conf(given: Mapping[str, str]) -> list[str]:
    return [part for key, value in given.items() for part in ("--conf", f"{key}={value}")]


def environment(**more: str) -> dict[str, str]:
    """This one's, without a word of Spark or a lake."""
    others = ("DELTASQL", "SPARK", "PYSPARK", "AWS", "PYTHONPATH")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(others)}
    return {**kept, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", **more}


class Servers(LoopbackProcess):
    """One driver that is a Thrift server and a Connect server, on a cluster."""

    name = "servers"

    def __init__(self, directory: Path, profile: str) -> None:
        super().__init__(directory)
        self.connect_port = free_port()
        self._profile = profile

    def command(self) -> list[str]:
        given = {
            **settings(self.directory),
            "spark.jars": jars(*spark_part.S3A_JARS.glob("*.jar")),
            "spark.plugins": f"{PLUGIN},{CONNECT}",
            "spark.deltasql.config": str(self.directory / "deltasql.toml"),
            "spark.deltasql.catalog.lake.profile": self._profile,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.connect_port),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JAVA,
            "spark.sql.execution.pythonUDF.arrow.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{self.directory}/events",
            "spark.eventLog.compress": "false",
            # Plans as Spark writes them down unless it is told otherwise.
            "spark.sql.ui.explainMode": "formatted",
        }
        thrift = {"port": self.port, "bind.host": "127.0.0.1"}
        hive = [f"hive.server2.thrift.{key}={value}" for key, value in thrift.items()]
        variables = environment(
            # A Python with PySpark alone, for the executors.
            PYSPARK_PYTHON=spark_part.find(),
            SPARK_WORKER_DIR=str(self.directory),
        )
        submit = [
            str(HOME / "bin" / "spark-submit"),
            "--master",
            f"local-cluster[{EXECUTORS},1,512]",
        ]
        words = [part for item in hive for part in ("--hiveconf", item)]
        known = [f"{key}={value}" for key, value in variables.items()]
        return [
            "/usr/bin/env", "-i", *known, *submit, *conf(given), "--class", THRIFT,
            "spark-internal", *words,
        ]  # fmt: skip

    def _wait_until_listening(self, timeout: float = 200) -> None:
        super()._wait_until_listening(timeout)
