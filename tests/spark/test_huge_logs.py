"""Adopting, validating and checkpointing with executors gives what it gives without them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
import deltasql.spark
from deltasql.adoption import cross_check
from deltasql.adoption.loading import parts, stretches
from deltasql.errors import ConfigError, DeltaSqlError, LogFormatError
from deltasql.spark import huge_logs
from deltasql.spark.jobs import in_order
from tests.adoption.forms import FORMS, REFUSED
from tests.adoption.logs import METADATA, PROTOCOL, add, commit_file, write_log
from tests.adoption.test_conformance import SAMPLE
from tests.conformance.tables import GOOD, ROOT
from tests.readers.engines import DeltaRs, DuckDb
from tests.sizes import FULL

# What a clock or chance decides.
VOLATILE = ("_at", "holder", "token")
SOURCE = Path(__file__).parents[2]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs are cut as huge ones are."""
    monkeypatch.setattr(stretches, "MOST_ROWS", 2)
    monkeypatch.setattr(parts, "MOST_ROWS", 3)
    monkeypatch.setattr(huge_logs, "_ROWS", 2)
    # So that Spark is the other reader of logs that have a checkpoint.
    monkeypatch.setattr(cross_check, "MANY", 0)


_KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=_KINDS)
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two new databases of a kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'one.db'}", f"sqlite:///{tmp_path / 'two.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    names = (f"huge_{os.getpid()}_one", f"huge_{os.getpid()}_two")
    yield server.create_database(names[0]), server.create_database(names[1])
    for name in names:
        server.drop_database(name)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Logs of every form, by name."""
    root = tmp_path_factory.mktemp("foreign")
    found = {}
    for number, (name, make) in enumerate({**FORMS, **REFUSED}.items()):
        found[name] = root / f"form{number}" / "table"
        found[name].parent.mkdir()
        (make[0] if isinstance(make, tuple) else make)(found[name])
    for number, name in enumerate(GOOD if FULL else SAMPLE):
        found[name] = root / f"conformance{number}"
        shutil.copytree(ROOT / "tables" / name, found[name])
    return found


def rows_of(url: str) -> dict[str, list[str]]:
    """Every row of the log's tables, without what a clock decides."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'dl_%'"
            names = [name for (name,) in connection.execute(query)]
            return {name: _rows(connection.execute(f"SELECT * FROM {name}")) for name in names}
    with psycopg.connect(url) as server:
        query = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'dl_%'"
        names = [name for (name,) in server.execute(query).fetchall()]
        return {name: _rows(server.execute(f"SELECT * FROM {name}")) for name in names}  # type: ignore[arg-type]


def _rows(cursor: Any) -> list[str]:
    kept = [
        place for place, item in enumerate(cursor.description) if not item[0].endswith(VOLATILE)
    ]
    return sorted(repr([row[place] for place in kept]) for row in cursor.fetchall())


def outcome(adopt: Any, path: Path, name: str) -> Any:
    """What an adoption comes to: the version, or the error in its own words."""
    try:
        table = adopt(str(path), name=name, fence=False, allow=[str(path.parent / "else where")])
    except DeltaSqlError as error:
        return error.__reduce__()[1]
    return table.version


@pytest.mark.timeout(600)
def test_every_row_is_the_same(
    spark: Any, foreign: dict[str, Path], urls: tuple[str, str], small: None
) -> None:
    """Every form on one of the databases: what differs there is how the same rows are stored."""
    if not FULL:
        first = int(urls[0].startswith("postgres"))
        foreign = dict(islice(foreign.items(), first, None, len(_KINDS)))
    with (
        deltasql.connect(urls[0], location="file:///unused") as here,
        deltasql.connect(urls[1], location="file:///unused") as there,
    ):
        db = deltasql.spark.attach(spark, there)
        for number, (name, path) in enumerate(foreign.items()):
            local = outcome(here.adopt, path, f"t{number}")
            assert outcome(db.adopt, path, f"t{number}") == local, name
        adopted = {table.name for table in here.tables()}
        assert len(adopted) > len(FORMS.keys() & foreign.keys())
        # Some foreign checkpoints are wrong; both say so.
        assert asdict(there.check()) == asdict(here.check())
        for name in sorted(adopted):
            told = here.table(name).mirror.validate()
            assert asdict(db.validate(name)) == asdict(told), name
        wanted, found = rows_of(urls[0]), rows_of(urls[1])
        assert {name: len(rows) for name, rows in found.items()} == {
            name: len(rows) for name, rows in wanted.items()
        }
        for name, rows in wanted.items():
            assert found[name] == rows, name


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A log that begins at a checkpoint with a few files, and goes on with commits."""
    root = write_log(tmp_path / "long", [PROTOCOL, METADATA, *(add(f"f{n}") for n in range(20))])
    _checkpoint(root)
    write_log(root, [add("late")], [add("later")], first=1)
    commit_file(root, 0).unlink()
    return root


def _checkpoint(root: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(root).create_checkpoint()


def test_the_other_reader_disagrees(
    spark: Any, long: Path, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark reads in the checkpoint is compared with what the database has."""
    work = stretches.AddsWork._made

    def lossy(self: Any, stretch: Any) -> Any:
        return list(work(self, stretch))[: 0 if stretch.rows.start == 4 else None]

    monkeypatch.setattr(stretches.AddsWork, "_made", lossy)
    monkeypatch.setattr(huge_logs, "in_order", lambda _, work, items, __: map(work, items))
    with deltasql.connect(f"sqlite:///{tmp_path / 'lake.db'}", location="file:///unused") as lake:
        with pytest.raises(LogFormatError, match="Spark reads version 2") as caught:
            deltasql.spark.attach(spark, lake).adopt(str(long), name="t")
        assert "it finds 22 files, deltasql 20" in caught.value.cause
        assert lake.store.staged_tables() == []


def test_a_file_that_is_there_twice(spark: Any, long: Path, tmp_path: Path, small: None) -> None:
    """The files may be in stretches that different executors read."""
    (checkpoint,) = (long / "_delta_log").glob("*.checkpoint.parquet")
    whole = pq.read_table(checkpoint)
    pq.write_table(pa.concat_tables([whole, whole.slice(whole.num_rows - 1)]), checkpoint)
    told = []
    for name in ("here", "there"):
        url = f"sqlite:///{tmp_path / name}.db"
        with deltasql.connect(url, location="file:///unused") as lake:
            way = lake.adopt if name == "here" else deltasql.spark.attach(spark, lake).adopt
            with pytest.raises(LogFormatError, match="twice") as caught:
                way(str(long), name="t")
            told.append(str(caught.value))
            assert lake.store.staged_tables() == []
    assert told[0] == told[1]


VICTIM = """
import os, signal, sys
import deltasql, deltasql.spark
from deltasql.adoption import cross_check
from deltasql.adoption.loading import parts, stretches
from deltasql.store.sqlite.store import SqliteStore
from tests.parts import spark as spark_part
from tests.parts.spark_settings import SMALL

url, root = sys.argv[1:]
stretches.MOST_ROWS, parts.MOST_ROWS = 2, 3
load, left = SqliteStore.load_history, [2]

def dying(self, lease, rows):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return load(self, lease, rows)

SqliteStore.load_history = dying
spark = deltasql.spark.session("victim", master="local[2]", jars=spark_part.JARS, config=SMALL)
with deltasql.connect(url, location="file:///unused") as lake:
    deltasql.spark.attach(spark, lake).adopt(root, name="t", fence=False)
"""


def test_killed_on_the_way(spark: Any, long: Path, tmp_path: Path, small: None) -> None:
    """Either way goes on with what the other one began, and leaves nothing behind."""
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("killed", "whole", "there")]
    for url in urls[:2]:
        deltasql.connect(url, location="file:///unused").close()
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE / 'src'}:{SOURCE}"}
    done = subprocess.run(
        [sys.executable, "-c", VICTIM, urls[0], str(long)], env=environment, check=False
    )
    assert done.returncode == -signal.SIGKILL
    with closing(sqlite3.connect(urls[0].removeprefix("sqlite:///"))) as connection:
        (left,) = connection.execute("SELECT count(*) FROM dl_active_files").fetchone()
        assert 0 < left < 20
        # Nobody renews it: otherwise the next one would have to wait.
        connection.execute("DELETE FROM dl_mirror_leases")
        connection.commit()
        # The other way goes on with a copy.
        with closing(sqlite3.connect(tmp_path / "there.db")) as copy:
            connection.backup(copy)
    for url in urls:
        with deltasql.connect(url, location="file:///unused") as lake:
            is_there = url == urls[2]
            way = deltasql.spark.attach(spark, lake).adopt if is_there else lake.adopt
            assert way(str(long), name="t", fence=False).version == 2
            assert lake.check().ok
    killed, whole, there = (rows_of(url) for url in urls)
    for table in ("dl_active_files", "dl_table_versions"):
        assert killed[table] == there[table] == whole[table]


def test_the_same_differences_are_told(spark: Any, long: Path, tmp_path: Path, small: None) -> None:
    path = tmp_path / "lake.db"
    with deltasql.connect(f"sqlite:///{path}", location="file:///unused") as lake:
        db = deltasql.spark.attach(spark, lake)
        db.adopt(str(long), name="t")
        assert db.validate("t").ok
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE dl_active_files SET size_bytes = 5 WHERE path = 'f3'")
            connection.execute("DELETE FROM dl_active_files WHERE path = 'f4'")
            connection.commit()
        told = db.validate("t")
        assert (told.different, told.extra, told.ok) == (["f3"], ["f4"], False)
        assert asdict(told) == asdict(lake.table("t").mirror.validate())


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_the_same_checkpoint(spark: Any, tmp_path: Path, policy: str, small: None) -> None:
    url, root = f"sqlite:///{tmp_path / 'lake.db'}", tmp_path / "lake"
    with deltasql.connect(url, location=root.as_uri()) as lake:
        db = deltasql.spark.attach(spark, lake)
        table = lake.create_table(
            "t", pa.schema([("id", pa.int64())]), properties={"delta.checkpointPolicy": policy}
        )
        for number in range(3):
            table.append(pa.table({"id": [number]}))
        lake.mirror.run(once=True)
        log = Path(table.location.removeprefix("file://")) / "_delta_log"
        found = []
        for write in (table.mirror.checkpoint, lambda: db.checkpoint("t")):
            assert write() == 3
            found.append(_content(log))
            for path in [*log.glob("*.checkpoint*"), *log.glob("_sidecars/*")]:
                path.unlink()
        assert found[0] == found[1]
        assert db.checkpoint("t") == 3
        # Readers have nothing else to begin with.
        for version in range(3):
            commit_file(log.parent, version).unlink()
        table.append(pa.table({"id": [3]}))
        lake.mirror.run(once=True)
        for reader in (DeltaRs(), DuckDb()):
            rows = reader.rows(log.parent, None)
            values = rows["id"].to_pylist() if isinstance(rows, pa.Table) else rows
            assert len(values) == 4
        stock = spark.read.format("delta").load(str(log.parent))
        assert sorted(row.id for row in stock.collect()) == [0, 1, 2, 3]


def _content(log: Path) -> list[str]:
    """The actions of a checkpoint, without names and times of its sidecars."""
    rows = []
    for path in sorted([*log.glob("*.checkpoint*"), *log.glob("_sidecars/*.parquet")]):
        for row in pq.read_table(path).to_pylist(maps_as_pydicts="strict"):
            row.pop("sidecar", None)
            rows += [repr((kind, value)) for kind, value in row.items() if value is not None]
    return sorted(rows)


def test_executors_without_the_package(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "only_on_the_driver.py").write_text("def work(item):\n    return b''\n")
    sys.path.insert(0, str(tmp_path))
    try:
        from only_on_the_driver import work  # type: ignore[import-not-found]

        with pytest.raises(ConfigError, match="executors can't run") as caught:
            list(in_order(spark, work, [1, 2], "testing"))
    finally:
        sys.path.remove(str(tmp_path))
    assert "only_on_the_driver" in caught.value.cause
    assert "spark.pyspark.python" in caught.value.remedy


def test_answers_come_in_order(spark: Any) -> None:
    items = [number.to_bytes(1) for number in range(7)]
    assert list(in_order(spark, bytes, items, "testing")) == items


def test_executors_need_no_driver() -> None:
    """What is sent to executors imports neither a database's driver nor PySpark."""
    script = (
        "import sys\n"
        "import deltasql.adoption.loading.stretches, deltasql.store.checking.summing\n"
        "import deltasql.store.chunks.adds\n"
        "drivers = {'psycopg', 'duckdb', 'sqlite3', 'adbc_driver_manager', 'pyspark'}\n"
        "sys.exit(str(drivers & sys.modules.keys()) if drivers & sys.modules.keys() else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
