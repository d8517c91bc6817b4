"""A job written for stock Delta, with nothing but the name of its catalog changed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.spark.plugin.conftest import CATALOG, OF_LAKE, PREFIX
from tests.spark.plugin.drivers import python

JOB = Path(__file__).parents[3] / "examples" / "pipeline" / "job.py"


def test_it_does_the_same_on_a_lake(spark, plugin, lake, tmp_path):
    spec = importlib.util.spec_from_file_location("job", JOB)
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    end = plugin({f"{PREFIX}python": python(tmp_path), f"{OF_LAKE}url": lake.url})
    try:
        stock = job.run(spark, "spark_catalog", str(tmp_path / "stock"))
        ours = job.run(spark, CATALOG, str(tmp_path / "ours"))
    finally:
        spark.sql("DROP SCHEMA spark_catalog.shop CASCADE")
        end()
    assert ours == stock
    assert len(ours["orders"]) == 4
    assert len(ours["feed"]) == 8
    for name in ("orders", "revenue", "feed"):
        assert lake.table(f"shop.{name}").mirror.validate().ok, name
