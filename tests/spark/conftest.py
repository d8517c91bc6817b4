"""One Spark session a worker, lakes in it, and stock Delta beside them as the judge."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltasql
import deltasql.spark
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.parts.spark_settings import SMALL
from tests.sizes import FULL
from tests.spark.cross_check import CrossCheck
from tests.spark.routes import ROUTES, Native, Plain, Source

SOURCE = Path(__file__).parents[2] / "src"

# Drivers of their own: those of sql/test_kills.py move amounts beside readers as well.
collect_ignore = [] if FULL else ["test_transfers.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark takes its time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    """A session made by deltasql; a task may fail once, as on a cluster three times."""
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    work = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = f"{SOURCE}:{SOURCE.parent}"
    session = deltasql.spark.session(
        "deltasql tests",
        master="local[2,2]",
        jars=os.environ.get("DELTASQL_TEST_JARS", spark_part.JARS),
        config=quick(work),
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def quick(work: Path) -> dict[str, str]:
    """Settings for small tables, and folders of the test's own."""
    return {
        **SMALL,
        "spark.driver.memory": "1400m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.local.dir": str(work),
        # For the plain Delta tables that ours are compared with.
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[deltasql.Lake]:
    root = tmp_path_factory.mktemp("lake")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


@pytest.fixture(scope="module")
def db(spark, lake) -> Iterator[deltasql.spark.Database]:
    """The lake in the session; at the end stock readers find in each mirror what SQL has."""
    database = deltasql.spark.attach(spark, lake)
    yield database
    CrossCheck(spark, lake, database).check_mirrors()


@pytest.fixture
def name() -> str:
    return f"t.{uuid.uuid4().hex[:12]}"


@pytest.fixture
def stock(spark, tmp_path):
    """A plain Delta table by name, made and used by stock Delta alone."""

    def make(columns: str = "", properties: str = "") -> str:
        table = f"stock_{uuid.uuid4().hex[:12]}"
        if columns:
            spark.sql(
                f"CREATE TABLE {table} ({columns}) USING delta LOCATION '{tmp_path / table}'"
                f"{properties}"
            )
        return table

    return make


@pytest.fixture(scope="module")
def plain(spark) -> Plain:
    """Stock Delta, on plain tables."""
    return Plain(spark)


@pytest.fixture(scope="module", params=ROUTES)
def route(request, spark, db):
    """Each of the two routes to our tables."""
    return {"native": Native(db), "source": Source(spark)}[request.param]


@pytest.fixture(scope="module")
def known():
    """What stock Delta did, asked once for both routes."""
    found: dict[Any, Any] = {}
    return lambda key, ask: found[key] if key in found else found.setdefault(key, ask())
