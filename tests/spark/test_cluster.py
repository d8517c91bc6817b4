"""Executors that know nothing of the database, on S3; and no secret in what Spark writes down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.parts.seaweedfs import ACCESS_KEY, SECRET_KEY
from tests.parts.spark_settings import JAVA, SMALL
from tests.sizes import FULL
from tests.spark.conftest import SOURCE

PASSWORD = "pg-password-3141"
JOB = Path(__file__).with_name("cluster_job.py")
# A JVM each: what an executor may know is the same for all.
EXECUTORS = 2 if FULL else 1


@pytest.fixture(scope="module")
def found(postgres_server, seaweedfs, tmp_path_factory):
    try:
        executors = spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    work = tmp_path_factory.mktemp("cluster")
    (work / "events").mkdir()
    database = f"spark_{uuid.uuid4().hex[:8]}"
    postgres_server.create_database(database)
    # The server trusts everybody; the password is there to be looked for.
    url = postgres_server.url(database).replace("@", f":{PASSWORD}@", 1)
    assert PASSWORD in url
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("DELTASQL", "SPARK", "AWS"))},
        "PYTHONPATH": str(SOURCE),
        # A Python with PySpark alone, found by the executors.
        "PYSPARK_PYTHON": executors,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(work),
        "SPARK_WORKER_DIR": str(work),
    }
    arguments = [url, seaweedfs.location(f"cluster-{uuid.uuid4().hex[:8]}")]
    arguments += [json.dumps(seaweedfs.options()), str(spark_part.JARS), str(spark_part.S3A_JARS)]
    # Plans as Spark writes them down unless it is told otherwise.
    small = {
        **SMALL,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.sql.ui.explainMode": "formatted",
    }
    done = subprocess.run(
        [sys.executable, str(JOB), *arguments, str(work), json.dumps(small), str(EXECUTORS)],
        env=environment, cwd=work, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    result = json.loads(lines[0].removeprefix("RESULT "))
    events = "".join(p.read_text() for p in (work / "events").rglob("*") if p.is_file())
    return {**result, "events": events, "log": done.stdout + done.stderr}


def test_rows_are_written_once_and_read_back_by_stock_delta(found):
    kept = [n for n in range(100) if not (n % 2 == 1 and n > 50)]
    expected = [*kept, *range(100, 110), 200]
    assert found["sum"] == sum(expected)
    assert found["count"] == len(expected)
    assert found["stock"] == [sum(expected), len(expected)]


def test_executors_have_no_driver_of_a_database_and_no_lake(found):
    assert found["executors"] == [""]


def test_secrets_are_in_no_plan_and_no_event_log(found):
    assert found["location"].startswith("s3://")
    assert "SparkListenerApplicationStart" in found["events"]
    for secret in (SECRET_KEY, PASSWORD):
        for place in ("plan", "events", "log"):
            assert secret not in found[place], place
    assert f'"{ACCESS_KEY}"' not in found["events"]
