"""A lake as a catalog of the session, and stock Delta beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import deltasql
import deltasql.spark
from tests.spark.cross_check import CrossCheck
from tests.spark.sql.sides import Lake, Stock

CATALOG = "lake"


@pytest.fixture(scope="module")
def db(spark, lake) -> Iterator[deltasql.spark.Database]:
    """The lake as a catalog; at the end it is detached, and stock readers judge the mirrors."""
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
    database = deltasql.spark.attach(spark, lake, catalog=CATALOG)
    yield database
    database.detach()
    for table in lake.tables():
        assert table.mirror.validate().ok, table.name
    CrossCheck(spark, lake, database).check_mirrors()


@pytest.fixture(scope="module")
def ours(spark, db, lake) -> Lake:
    return Lake(spark, CATALOG, lake)


@pytest.fixture(scope="module")
def theirs(spark) -> Stock:
    return Stock(spark)
