"""`spark-sql`, which has no Python but the one that the plugin starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import deltasql
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.spark.plugin.drivers import HOME, conf, environment, is_gone, processes, settings


@pytest.fixture
def work(tmp_path) -> Path:
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    return tmp_path


def spark_sql(work: Path, *statements: str) -> subprocess.CompletedProcess[str]:
    given = {**settings(work), "spark.sql.defaultCatalog": "lake"}
    return subprocess.run(
        [str(HOME / "bin" / "spark-sql"), "--master", "local[2]", *conf(given),
         "-e", ";".join(statements)],
        env=environment(DELTASQL_URL=f"sqlite:///{work / 'lake.db'}"), cwd=work,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def test_statements(work):
    done = spark_sql(
        work,
        "CREATE TABLE sales.t AS SELECT id FROM range(3)",
        "SELECT concat('rows ', array_join(sort_array(collect_list(id)), ',')) FROM sales.t",
        "CREATE TABLE sales.u (id BIGINT)",
        "CALL lake.system.begin()",
        "INSERT INTO sales.u SELECT id + 10 FROM sales.t",
        "DELETE FROM sales.t WHERE id = 2",
        "CALL lake.system.rollback()",
        "CALL lake.system.begin()",
        "INSERT INTO sales.u SELECT id FROM sales.t WHERE id = 1",
        "DELETE FROM sales.t WHERE id = 1",
        "SELECT concat('inside ', (SELECT count(*) FROM sales.t), (SELECT min(id) FROM sales.u))",
        "CALL lake.system.commit()",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "rows 0,1,2" in done.stdout
    assert "inside 21" in done.stdout
    with deltasql.connect(f"sqlite:///{work / 'lake.db'}") as lake:
        table = lake.table("sales.t")
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [0, 2]
        other = lake.table("sales.u")
        assert other.scan().to_arrow().column("id").to_pylist() == [1]
        # Both in one transaction, and what was rolled back in none.
        ids = {item.history(limit=1)[0].transaction_id for item in (table, other)}
        assert len(ids) == 1
        assert None not in ids
        assert (table.version, other.version) == (1, 1)
        assert table.mirror.validate().ok
    (pid,) = processes(work)
    assert is_gone(pid)
