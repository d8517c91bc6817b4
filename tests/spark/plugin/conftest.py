"""The plugin in the tests' own session, as if its context had started it."""

from __future__ import annotations

import pytest

import deltasql
from deltasql.spark.catalog.attaching import _load_classes
from tests.sizes import FULL

CATALOG = "beside"
PREFIX = "spark.deltasql."
OF_LAKE = f"{PREFIX}catalog.{CATALOG}."

# Sessions of their own, and for dbt an environment: test_servers.py has a driver without PySpark.
collect_ignore = [] if FULL else ["test_dbt.py", "test_spark_sql.py"]


@pytest.fixture(scope="module")
def plugin(spark):
    """Start the plugin with settings; returns what ends it."""
    _load_classes(spark)
    context = spark._jsc.sc()
    started = []

    def start(settings):
        driver = spark._jvm.io.deltasql.spark.LakePlugin().driverPlugin()
        started.append(driver)
        given = {f"{PREFIX}catalogs": CATALOG, **settings}
        for key, value in given.items():
            context.conf().set(key, value)
        try:
            driver.init(context, None)
        finally:
            for key in given:
                context.conf().remove(key)
        spark.conf.set(f"spark.sql.catalog.{CATALOG}", "io.deltasql.spark.LakeCatalog")
        return driver.shutdown

    yield start
    for driver in started:
        driver.shutdown()


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    with deltasql.connect(f"sqlite:///{tmp_path_factory.mktemp('beside')}/lake.db") as lake:
        yield lake
