"""dbt with the session method: seeds, a merge, a snapshot and tests, twice."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import deltasql
from tests.parts import dbt
from tests.parts.process import PartMissingError
from tests.spark.plugin.drivers import HOME, environment, is_gone, processes, settings

PROJECT = Path(__file__).parents[3] / "examples" / "dbt"


def build(work: Path, program: str) -> dict[str, str]:
    """Build everything; returns the status of each node."""
    done = subprocess.run(
        [program, "build", "--profiles-dir", "."],
        cwd=work / "dbt",
        env=environment(
            SPARK_CONF_DIR=str(work),
            PYTHONPATH=str(work / "lent"),
            DELTASQL_URL=f"sqlite:///{work / 'lake.db'}",
        ),
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    results = json.loads((work / "dbt" / "target" / "run_results.json").read_text())["results"]
    return {item["unique_id"].split(".")[2]: item["status"] for item in results}


@pytest.mark.timeout(600)
def test_a_project_is_built_and_built_again(tmp_path):
    try:
        program = dbt.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    shutil.copytree(PROJECT, tmp_path / "dbt")
    # dbt has no PySpark of its own here, and its Python nothing of ours.
    (tmp_path / "lent").mkdir()
    for name in ("pyspark", "py4j"):
        (tmp_path / "lent" / name).symlink_to(HOME.parent / name)
    given = {**settings(tmp_path), "spark.sql.defaultCatalog": "lake", "spark.master": "local[2]"}
    lines = [f"{key} {value}\n" for key, value in given.items()]
    (tmp_path / "spark-defaults.conf").write_text("".join(lines))

    first = build(tmp_path, program)
    seeds = tmp_path / "dbt" / "seeds"
    customers, payments = seeds / "customers.csv", seeds / "payments.csv"
    customers.write_text(customers.read_text().replace("London", "Paris"))
    payments.write_text(payments.read_text().replace("3,1,30", "3,1,35") + "4,3,40,2026-11-03\n")
    again = build(tmp_path, program)

    assert len(first) == 10
    assert first == again
    assert set(first.values()) == {"success", "pass"}
    with deltasql.connect(f"sqlite:///{tmp_path / 'lake.db'}") as lake:
        orders = lake.table("shop.orders")
        amounts = sorted(orders.scan().to_arrow().column("amount").to_pylist())
        assert amounts == [10, 20, 35, 40]
        assert orders.history()[0].operation == "MERGE"
        history = lake.table("shop.customers_history").scan().to_arrow().to_pylist()
        ada = {row["city"]: row["dbt_valid_to"] is None for row in history if row["id"] == 1}
        assert ada == {"London": False, "Paris": True}
        for table in lake.tables():
            assert table.mirror.validate().ok, table.name
    assert all(is_gone(pid) for pid in processes(tmp_path))
