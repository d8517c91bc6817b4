"""JDBC through the Thrift server and a Connect client, on executors that know nothing of a lake.

One driver is both servers, on PostgreSQL and S3.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import deltasql
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.parts.seaweedfs import SECRET_KEY
from tests.spark.plugin.drivers import HOME, Servers, environment, is_gone, processes

PASSWORD = "pg-password-2718"
CLIENT = Path(__file__).with_name("client.py")
STATEMENTS = [
    "CREATE TABLE lake.s.t (id BIGINT)",
    "INSERT INTO lake.s.t SELECT id FROM range(0, 4, 1, 4)",
    "SELECT * FROM lake.s.t ORDER BY id",
]


@pytest.fixture(scope="module")
def lake(postgres_server, seaweedfs):
    database = f"plugin_{uuid.uuid4().hex[:8]}"
    postgres_server.create_database(database)
    # The server trusts everybody; the password is there to be looked for.
    url = postgres_server.url(database).replace("@", f":{PASSWORD}@", 1)
    location = seaweedfs.location(f"plugin-{uuid.uuid4().hex[:8]}")
    with deltasql.connect(url, location=location, settings=seaweedfs.options()) as lake:
        yield lake


@pytest.fixture(scope="module")
def found(lake, tmp_path_factory):
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    work = tmp_path_factory.mktemp("servers")
    (work / "events").mkdir()
    opening = {key: value for key, value in lake.opening.items() if isinstance(value, str)}
    lines = [f"{key} = {json.dumps(text)}" for key, text in opening.items()]
    lines += [f"{key} = {json.dumps(text)}" for key, text in lake.opening["settings"].items()]
    (work / "deltasql.toml").write_text("[profiles.sales]\n" + "\n".join(lines) + "\n")
    with Servers(work, "sales") as server:
        rows = by_jdbc(server.port)
        result = by_connect(server)
        (alive,) = processes(work)
        server.kill()
    events = "".join(path.read_text() for path in (work / "events").rglob("*") if path.is_file())
    said = {"log": server.log.read_text(errors="replace"), "events": events}
    return {**result, **said, "jdbc": rows, "ended": is_gone(alive)}


def by_jdbc(port: int) -> list[int]:
    """The rows of the last statement, from Hive's JDBC driver."""
    url = ["-u", f"jdbc:hive2://127.0.0.1:{port}/", "-n", "someone"]
    quiet = ["--silent=true", "--outputformat=csv2", "--showHeader=false"]
    words = [part for text in STATEMENTS for part in ("-e", text)]
    done = subprocess.run(
        [str(HOME / "bin" / "beeline"), *url, *quiet, *words],
        env=environment(), capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return [int(line) for line in done.stdout.split() if line.isdecimal()]


def by_connect(server: Servers) -> dict:
    done = subprocess.run(
        [sys.executable, str(CLIENT), f"sc://127.0.0.1:{server.connect_port}"],
        env=environment(), capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    log = server.log.read_text(errors="replace")
    assert lines, done.stdout[-1000:] + done.stderr[:6000] + log[-4000:]
    return json.loads(lines[0].removeprefix("RESULT "))


def test_a_client_of_jdbc_writes_and_reads(found):
    assert found["jdbc"] == [0, 1, 2, 3]


def test_a_client_of_connect_writes_and_reads_the_same_tables(found, lake):
    assert found["thrift"] == [0, 1, 2, 3]
    assert found["written"] == [0, 1, 2, 3, 10]
    assert "TABLE_OR_VIEW_NOT_FOUND" in found["missing"]
    rows = lake.table("s.t").scan().to_arrow().column("id").to_pylist()
    assert sorted(rows) == found["written"]
    assert lake.table("s.t").location.startswith("s3://")
    assert lake.table("s.t").mirror.validate().ok


def test_executors_have_neither_the_package_nor_the_database(found):
    assert found["executors"] == [""]


def test_the_process_ends_with_a_killed_driver(found):
    assert found["ended"]


def test_secrets_are_in_no_event_log_and_no_log(found):
    assert "SparkListenerEnvironmentUpdate" in found["events"]
    for secret in (SECRET_KEY, PASSWORD):
        for place in ("events", "log"):
            assert secret not in found[place], place
