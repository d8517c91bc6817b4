"""A lake to mirror, and one Spark for all reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import deltasql
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.parts.spark import Spark
from tests.readers.engines import DuckDb


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Delta Spark; it comes up while the first tables are made."""
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    with Spark(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


@pytest.fixture(scope="session")
def duck() -> DuckDb:
    return DuckDb()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[deltasql.Lake]:
    root = tmp_path_factory.mktemp("lake")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake
