"""The first hour, as the docs lead through it: PostgreSQL with the roles of `db grants`, S3,
`deltasql.spark.session()`, a write, a merge, a stream, four readers, adopt, release, recover.

Each verb is done by a role that may do it, and tried by one that may not. The session fetches
Hadoop's client for S3 itself; a repository in a folder is to Ivy what one on a server is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

import deltasql
from deltasql.spark.sessions.credentials import s3a_settings
from tests.cli.conftest import Ended, Program
from tests.conftest import fresh_database, open_directory
from tests.parts import seaweedfs as seaweedfs_part
from tests.parts import spark as spark_part
from tests.parts.postgres import PostgresServer
from tests.parts.process import PartMissingError
from tests.parts.seaweedfs import BUCKET, READER_KEY, READER_SECRET, SeaweedFs
from tests.parts.spark import Spark
from tests.parts.spark_settings import ENVIRONMENT
from tests.readers.engines import DeltaRs, DuckDb, Polars
from tests.spark.conftest import SOURCE
from tests.spark.test_jars import SETTINGS, publish, publish_client

JOB = Path(__file__).with_name("first_hour.py")
VISITS = [[1, "2026-11-01"], [2, "2026-11-02"], [3, "2026-11-02"]]
ROLES = ("reader", "writer", "mirror", "owner")


@dataclass(frozen=True)
class Place:
    """A database with the documented roles, and a bucket."""

    program: Program
    bucket: SeaweedFs
    urls: dict[str, str]
    location: str

    def run(self, role: str, *arguments: str) -> Ended:
        """A command, by a role, with what that role has for the object store."""
        bucket = self.bucket
        options = bucket.reader_options() if role == "reader" else bucket.options()
        given = {f"DELTASQL_{key.upper().replace('.', '_')}": v for key, v in options.items()}
        address = {"DELTASQL_URL": self.urls[role], "DELTASQL_LOCATION": self.location}
        return self.program(*arguments, **given, **address)

    def lake(self, role: str) -> deltasql.Lake:
        bucket = self.bucket
        options = bucket.reader_options() if role == "reader" else bucket.options()
        return deltasql.connect(self.urls[role], location=self.location, settings=options)


@pytest.fixture(scope="module")
def bucket() -> Iterator[SeaweedFs]:
    try:
        spark_part.find()
        seaweedfs_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    with open_directory("seaweedfs") as folder, SeaweedFs(folder, with_reader=True) as server:
        yield server


@contextmanager
def initialized(server: PostgresServer, bucket: SeaweedFs, folder: Path) -> Iterator[Place]:
    """`deltasql init` by the owner of a database, then its grants, as operations.md has it."""
    names = {role: f"{role}_{uuid.uuid4().hex[:8]}" for role in ROLES}
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for name in names.values():
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    with fresh_database(server) as database:
        url = server.url(database)
        with psycopg.connect(url, autocommit=True) as connection:
            statement = sql.SQL("ALTER DATABASE {} OWNER TO {}")
            connection.execute(
                statement.format(sql.Identifier(database), sql.Identifier(names["owner"]))
            )
        urls = {role: url.replace("postgres@", f"{name}@") for role, name in names.items()}
        place = Place(
            Program(folder, folder), bucket, urls, bucket.location(f"hour-{uuid.uuid4().hex[:8]}")
        )
        begun = place.run("owner", "init", "--no-file")
        assert begun.code == 0, begun.err
        wanted = [word for role in ROLES[:3] for word in (f"--{role}", names[role])]
        grants = place.run("owner", "db", "grants", *wanted)
        with psycopg.connect(urls["owner"], autocommit=True) as connection:
            connection.execute(grants.out)
        yield place


@pytest.fixture
def machine(tmp_path) -> dict[str, str]:
    """The environment of a machine without jars, whose Spark knows a repository."""
    repository = tmp_path / "repository"
    repository.mkdir()
    publish(repository)
    publish_client(repository)
    (tmp_path / "ivysettings.xml").write_text(SETTINGS.format(root=repository.as_uri()))
    (tmp_path / "conf").mkdir()
    defaults = f"spark.jars.ivySettings {tmp_path / 'ivysettings.xml'}\n"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DELTASQL", "SPARK", "AWS"))}
    return kept | {
        **ENVIRONMENT,
        "PYTHONPATH": str(SOURCE),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@pytest.mark.timeout(600)
def test_the_first_hour(postgres_server, bucket, machine, spark, tmp_path):
    with initialized(postgres_server, bucket, tmp_path) as place:
        written_by_spark(place, machine, tmp_path)
        mirrored_by_the_worker(place)
        read_by_four(place, spark)
        adopted_by_the_owner(place)
        released_by_a_writer(place)
        with initialized(postgres_server, bucket, tmp_path) as another:
            recovered_by_the_owner(place, another)


def written_by_spark(place: Place, machine: dict[str, str], tmp_path: Path) -> None:
    """The writer writes, merges and streams; the reader reads, and is refused."""
    options = {
        f"DELTASQL_{key.upper().replace('.', '_')}": text
        for key, text in place.bucket.options().items()
    }
    done = subprocess.run(
        [sys.executable, str(JOB), place.urls["reader"], json.dumps(place.bucket.reader_options())],
        env=machine | options | {
            "DELTASQL_URL": place.urls["writer"],
            "DELTASQL_LOCATION": place.location,
            # Without the right to touch a log: the worker mirrors.
            "DELTASQL_MIRROR_MODE": "async",
        },
        cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout[-2000:] + done.stderr[-6000:]
    found = json.loads(lines[0].removeprefix("RESULT "))
    assert found["visits"] == VISITS
    assert found["copies"] == [[4, "2026-11-03"]]
    assert "permission denied: this role can't commit" in found["refused"]
    assert "deltasql db grants" in found["refused"]
    assert found["pending"] > 0
    # Both were fetched, and it said so.
    for package in ("io.delta:delta-spark_4.2_2.13", "org.apache.hadoop:hadoop-aws"):
        assert f"deltasql: fetched {package}" in done.stderr


def mirrored_by_the_worker(place: Place) -> None:
    assert place.run("reader", "mirror", "run", "--once").code != 0
    done = place.run("mirror", "mirror", "run", "--once")
    assert done.code == 0, done.err
    assert place.run("reader", "mirror", "status").code == 0
    assert place.run("mirror", "mirror", "validate").code == 0


def read_by_four(place: Place, spark: Spark) -> None:
    """Spark, DuckDB, Polars and delta-rs, with keys that only read."""
    with place.lake("reader") as lake:
        where, options = lake.table("sales.visits").location, lake.reader_options
    duck = DuckDb()
    duck.reach(
        "s3", KEY_ID=READER_KEY, SECRET=READER_SECRET, REGION="us-east-1", USE_SSL="false",
        URL_STYLE="path", ENDPOINT=f"127.0.0.1:{place.bucket.port}",
    )  # fmt: skip
    for reader in (DeltaRs(options), Polars(options), duck):
        rows = reader.rows(where, None).to_pylist()
        assert sorted([row["id"], str(row["day"])] for row in rows) == VISITS, reader
    # Hadoop's cache may have another server's bucket of this name, and is not to have this one.
    apart = "fs.s3a.impl.disable.cache"
    spark.reach(s3a_settings(BUCKET, place.bucket.reader_options()) | {apart: "true"})
    told = spark.read(where.replace("s3://", "s3a://"), None)
    spark.reach({apart: "false"})
    assert sorted(told["rows"]) == VISITS


def adopted_by_the_owner(place: Place) -> None:
    old = place.bucket.location(f"old-{uuid.uuid4().hex[:8]}")
    with place.lake("owner") as lake:
        options = lake.reader_options
    deltalake.write_deltalake(old, pa.table({"id": [7, 8]}), storage_options=options)
    for role in ("reader", "writer", "mirror"):
        refused = place.run(role, "adopt", old, "sales.old")
        assert refused.code == 1
        assert "permission denied: this role can't adopt tables" in refused.err
        assert "adopt as the owner of the log's tables" in refused.err
    assert deltalake.DeltaTable(old, storage_options=options).version() == 0, "and nothing written"
    done = place.run("owner", "adopt", old, "sales.old")
    assert done.code == 0, done.err
    with place.lake("writer") as lake:
        lake.table("sales.old").append(pa.table({"id": [9]}))
        assert lake.table("sales.old").count() == 3


def released_by_a_writer(place: Place) -> None:
    refused = place.run("reader", "release", "sales.old", "--yes")
    assert refused.code == 1
    assert "permission denied" in refused.err
    done = place.run("writer", "release", "sales.old", "--yes")
    assert done.code == 0, done.err
    with place.lake("writer") as lake:
        where, options = lake.table("sales.old").location, lake.reader_options
    # Others write it again.
    deltalake.write_deltalake(where, pa.table({"id": [10]}), mode="append", storage_options=options)
    assert deltalake.DeltaTable(where, storage_options=options).to_pyarrow_table().num_rows == 4


def recovered_by_the_owner(lost: Place, place: Place) -> None:
    """The database is lost: a new one, and the tables come back from their mirrors."""
    place = replace(place, location=lost.location)
    refused = place.run("writer", "recover")
    assert refused.code == 1
    assert "permission denied: this role can't adopt tables" in refused.out + refused.err
    done = place.run("owner", "recover", "-o", "json")
    assert done.code == 0, done.err
    assert {(item["table"], item["status"]) for item in done.json} == {
        (name, "adopted") for name in ("sales.copies", "sales.notes", "sales.visits")
    }
    with place.lake("writer") as lake:
        visits = lake.table("sales.visits")
        assert visits.count() == len(VISITS)
        visits.delete("id = 3")
    with place.lake("reader") as lake:
        assert lake.table("sales.visits").count() == len(VISITS) - 1
