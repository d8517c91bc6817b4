"""The data source over a real Spark Connect server, which has no Delta jar."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import deltasql
from tests.parts.process import LoopbackProcess
from tests.parts.spark_settings import SMALL
from tests.spark.conftest import SOURCE

JOB = Path(__file__).with_name("connect_job.py")


class ConnectServer(LoopbackProcess):
    """Spark Connect with profiles of its own; the lake's address is in no setting of Spark."""

    name = "connect"

    def command(self) -> list[str]:
        home = Path(pyspark.__file__).parent
        environment = {
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}",
            "DELTASQL_CONFIG": str(self.directory / "deltasql.toml"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        settings = {
            **SMALL,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": str(self.directory / "warehouse"),
        }
        conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        variables = [f"{key}={value}" for key, value in environment.items()]
        main = "org.apache.spark.sql.connect.service.SparkConnectServer"
        submit = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", main]
        return ["/usr/bin/env", *variables, *submit, *conf, "--name", "connect", "spark-internal"]

    def _wait_until_listening(self, timeout: float = 120) -> None:
        super()._wait_until_listening(timeout)


@pytest.fixture(scope="module")
def lake_file(tmp_path_factory):
    root = tmp_path_factory.mktemp("connect")
    profile = {"url": f"sqlite:///{root / 'lake.db'}", "location": (root / "data").as_uri()}
    lines = [f"{key} = {json.dumps(value)}" for key, value in profile.items()]
    (root / "deltasql.toml").write_text("[profiles.sales]\n" + "\n".join(lines) + "\n")
    deltasql.connect(**profile).close()
    return root, profile


@pytest.fixture(scope="module")
def found(lake_file):
    root, _ = lake_file
    with ConnectServer(root) as server:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DELTASQL", "SPARK"))}
        done = subprocess.run(
            [sys.executable, str(JOB), f"sc://127.0.0.1:{server.port}"],
            env={**kept, "PYTHONPATH": str(SOURCE)},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        log = server.log.read_text(errors="replace")
    assert lines, done.stdout[-1000:] + done.stderr[:6000] + log[-2000:]
    return json.loads(lines[0].removeprefix("RESULT "))


def test_reads_appends_and_overwrites(found, lake_file):
    assert found["appended"] == list(range(8))
    assert found["filtered"] == [6, 7]
    assert found["overwritten"] == [0, 1]
    assert found["old"] == list(range(5))
    with deltasql.connect(**lake_file[1]) as lake:
        assert lake.table("c.t").scan().to_arrow().num_rows == 3


def test_tables_made_with_sql(found):
    assert found["sql"] == 1
    assert found["inserted"] == [0, 1, 40]


def test_what_it_cannot_do_names_the_way(found):
    assert "native route" in found["merge"]
    assert "Spark Connect" in found["native"]
    assert "format(" in found["native"]
    assert "there is no lake 'x'" in found["unknown"]
