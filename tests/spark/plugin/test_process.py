"""The process beside the driver: how it is started, asked, killed, started again and ended.

The plugin is given the tests' own session, as if its context had started it.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException

from tests.parts import spark as spark_part
from tests.sizes import FULL
from tests.spark.plugin.conftest import CATALOG, OF_LAKE, PREFIX
from tests.spark.plugin.drivers import is_gone, processes, python


@pytest.fixture(scope="module")
def work(plugin, lake, tmp_path_factory):
    """The folder of a running process."""
    work = tmp_path_factory.mktemp("work")
    # The mirror's lease of a process that was killed lasts half a minute: no commit is to wait.
    impatient = python(work, DELTASQL_MIRROR_SYNC_TIMEOUT="200ms")
    end = plugin({f"{PREFIX}python": impatient, f"{OF_LAKE}url": lake.url})
    assert len(processes(work)) == 1
    yield work
    end()
    assert is_gone(processes(work)[-1])


@pytest.fixture
def rows(spark, work, lake):
    """A table, and what is in it by the lake's own word."""
    spark.sql(f"CREATE OR REPLACE TABLE {CATALOG}.s.t AS SELECT 1L AS id")
    return lambda: sorted(lake.table("s.t").scan().to_arrow().column("id").to_pylist())


def test_a_process_that_was_killed_is_started_again(spark, work, rows):
    before = processes(work)
    os.kill(before[-1], signal.SIGKILL)
    spark.sql(f"INSERT INTO {CATALOG}.s.t VALUES (2)")
    assert rows() == [1, 2]
    assert len(processes(work)) == len(before) + 1


def test_a_query_that_the_process_dies_in_goes_on(spark, work, rows):
    (work / "die").write_text("files before")
    assert [row.id for row in spark.table(f"{CATALOG}.s.t").collect()] == [1]
    assert not (work / "die").exists()


def test_many_threads_ask_at_once(spark, rows):
    def insert(number):
        spark.sql(f"INSERT INTO {CATALOG}.s.t VALUES ({number})")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(insert, range(2, 8)))
    assert rows() == list(range(1, 8))


INSERT = ("INSERT INTO {} VALUES (2)", [1, 2])
UPDATE = ("UPDATE {} SET id = 3", [3])


@pytest.mark.parametrize(
    ("statement", "expected", "when"),
    [(*INSERT, "before"), (*INSERT, "after"), (*UPDATE, "after"), *([(*UPDATE, "before")] * FULL)],
)
def test_a_commit_that_the_process_dies_in_happens_once(
    spark, work, lake, rows, statement, expected, when
):
    version = lake.table("s.t").version
    (work / "die").write_text(f"commit {when}")
    spark.sql(statement.format(f"{CATALOG}.s.t"))
    assert not (work / "die").exists()
    assert rows() == expected
    assert lake.table("s.t").version == version + 1


@pytest.mark.parametrize("when", ["after", "before"][: 1 + FULL])
def test_a_creation_that_the_process_dies_in_happens_once(spark, work, lake, when):
    (work / "die").write_text(f"commit {when}")
    spark.sql(f"CREATE TABLE {CATALOG}.s.new_{when} AS SELECT 1L AS id")
    assert not (work / "die").exists()
    assert lake.table(f"s.new_{when}").version == 0
    assert spark.table(f"{CATALOG}.s.new_{when}").count() == 1


def test_a_transaction_that_the_process_dies_in_commits_nothing(spark, work, rows):
    def call(name):
        spark.sql(f"CALL {CATALOG}.system.{name}()").collect()

    insert = f"INSERT INTO {CATALOG}.s.t VALUES (2)"
    call("begin")
    spark.sql(insert)
    os.kill(processes(work)[-1], signal.SIGKILL)
    # Not committed by itself: whoever began it does not know that it is gone.
    with pytest.raises(PySparkException, match="the transaction has ended"):
        spark.sql(insert)
    with pytest.raises(PySparkException, match="the transaction has ended"):
        call("commit")
    assert rows() == [1]
    spark.sql(insert)
    assert rows() == [1, 2]


def test_a_drop_whose_answer_is_lost_is_told(spark, work, lake, rows):
    (work / "die").write_text("drop after")
    with pytest.raises(PySparkException, match="DELTASQL_ANSWER_LOST") as told:
        spark.sql(f"DROP TABLE {CATALOG}.s.t")
    assert "look before you repeat it" in str(told.value)
    assert [table.name for table in lake.tables() if table.name == "s.t"] == []


def test_who_does_not_know_the_secret_is_not_answered(spark, work, rows):
    process = psutil.Process(processes(work)[-1])
    (port,) = {
        item.laddr.port for item in process.net_connections() if item.status == psutil.CONN_LISTEN
    }
    said = b"0" * 64 + b"\n" + b"1" * 64
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
        assert len(stranger.recv(100)) == 4 + 64
        stranger.sendall(struct.pack(">i", len(said)) + said)
        assert stranger.recv(100) == b""
    assert rows() == [1]


def test_the_secret_is_neither_in_arguments_nor_in_the_environment(work, rows):
    process = psutil.Process(processes(work)[-1])
    assert process.cmdline()[-3:] == ["-P", "-m", "deltasql.spark.plugin"]
    added = set(process.environ().values()) - set(os.environ.values())
    said = " ".join([*process.cmdline(), *added])
    assert not re.findall("[0-9a-f]{64}", said)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({f"{OF_LAKE}url": "postgresql://me:hidden@db/lake"}, "has a password"),
        ({f"{PREFIX}python": "/usr/bin/false"}, "/usr/bin/false ended without a word"),
        ({f"{PREFIX}python": "/nowhere/python"}, "No such file"),
        ({f"{OF_LAKE}profile": "none"}, "there is no profile 'none'"),
        ({f"{PREFIX}catalogs": "spark_catalog"}, "can't be the name"),
    ],
)
def test_what_can_not_start_says_why(plugin, tmp_path, settings, words):
    with pytest.raises(Exception, match="DELTASQL_NO_PROCESS") as told:
        plugin({f"{PREFIX}python": python(tmp_path), **settings})
    assert words in str(told.value)
    assert "hidden" not in str(told.value)


def test_the_settings_for_a_driver_are_printed(tmp_path):
    def printed(**variables):
        return subprocess.run(
            [sys.executable, "-m", "deltasql.spark.plugin", "conf"],
            env={**os.environ, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = printed(DELTASQL_SPARK_JARS=str(spark_part.JARS))
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    names = [Path(item).name for item in found["spark.jars"].split(",") if Path(item).is_file()]
    assert "deltasql-spark.jar" in names
    assert any(name.startswith("delta-spark") for name in names)
    assert found["spark.plugins"] == "io.deltasql.spark.LakePlugin"
    assert found["spark.deltasql.python"] == sys.executable
    refused = printed(DELTASQL_SPARK_JARS=str(tmp_path))
    assert refused.returncode == 1
    assert refused.stderr.startswith("there is no Delta in")
