"""A job written for stock Delta, with nothing but the name of its catalog changed."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

from tests.sizes import FULL
from tests.spark.plugin.conftest import CATALOG, OF_LAKE, PREFIX
from tests.spark.plugin.drivers import python

JOB = Path(__file__).parents[3] / "examples" / "pipeline" / "job.py"


def test_it_does_the_same_on_a_lake(spark, plugin, lake, tmp_path):
    spec = importlib.util.spec_from_file_location("job", JOB)
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    end = plugin({f"{PREFIX}python": python(tmp_path), f"{OF_LAKE}url": lake.url})
    try:
        ours = job.run(spark, CATALOG, str(tmp_path / "ours"))
        if FULL:
            stock = job.run(spark, "spark_catalog", str(tmp_path / "stock"))
            spark.sql("DROP SCHEMA spark_catalog.shop CASCADE")
            assert ours == stock
    finally:
        end()
    orders = [("1", "Ada", "10"), ("3", "Ada", "35"), ("4", "Linus", "40"), ("5", "Grace", "50")]
    assert [row[:3] for row in ours["orders"]] == orders
    assert ours["revenue"] == [("Ada", "45"), ("Grace", "50"), ("Linus", "40")]
    assert Counter(kind for _, _, kind in ours["feed"]) == {
        "insert": 5, "update_preimage": 1, "update_postimage": 1, "delete": 1
    }  # fmt: skip
    for name in ("orders", "revenue", "feed"):
        assert lake.table(f"shop.{name}").mirror.validate().ok, name
