"""Readers find on S3 and Azure what they find on a disk."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltasql
from deltasql.spark.native.gateway import hadoop_location
from deltasql.spark.sessions.credentials import s3a_settings
from tests.conftest import open_directory
from tests.parts import azurite as azurite_part
from tests.parts import seaweedfs as seaweedfs_part
from tests.parts.azurite import Azurite
from tests.parts.seaweedfs import SeaweedFs
from tests.readers.engines import DeltaRs, DuckDb, Polars, files_of, lines
from tests.readers.tables import CASES
from tests.readers.test_agreement import check_spark, make

pytestmark = pytest.mark.timeout(600)

# Partition values with characters that a path writes otherwise.
ODD = "by odd texts"
TABLES = [("plain", "checkpoints"), (ODD, "no checkpoint"), ("vectors", "v2 checkpoints")]
# Where DuckDB looks for an emulator of Azure, whatever it is told.
EMULATOR_PORT = 10_000


@pytest.fixture(scope="module")
def emulator() -> Iterator[Azurite]:
    with open_directory("azurite") as directory:
        server = Azurite(directory)
        server.port = EMULATOR_PORT
        with server:
            yield server


def lake_on(server: SeaweedFs | Azurite, folder: Path) -> deltasql.Lake:
    place = server.location(f"readers/{uuid.uuid4().hex}")
    return deltasql.connect(
        f"sqlite:///{folder / 'lake.db'}", location=place, settings=server.options()
    )


@pytest.mark.parametrize(("about", "form"), TABLES)
def test_readers_agree_on_s3(seaweedfs, duck, spark, tmp_path, about, form):
    duck.reach(
        "s3",
        KEY_ID=seaweedfs_part.ACCESS_KEY,
        SECRET=seaweedfs_part.SECRET_KEY,
        ENDPOINT=f"127.0.0.1:{seaweedfs.port}",
        USE_SSL="false",
        URL_STYLE="path",
        REGION="us-east-1",
    )
    spark.reach(s3a_settings(seaweedfs_part.BUCKET, seaweedfs.options()))
    with lake_on(seaweedfs, tmp_path) as lake:
        table = make(lake, CASES[about], form)
        for version in (None, 1):
            check_kernel_readers(lake, duck, table, version, about)
            told = spark.read(hadoop_location(table.location), version)
            check_spark(told, table.snapshot(version))


@pytest.mark.parametrize(("about", "form"), TABLES)
def test_readers_agree_on_azure(emulator, duck, tmp_path, about, form):
    blobs = f"http://127.0.0.1:{emulator.port}/{azurite_part.ACCOUNT}"
    duck.reach(
        "azure",
        CONNECTION_STRING="DefaultEndpointsProtocol=http;"
        f"AccountName={azurite_part.ACCOUNT};AccountKey={azurite_part.KEY};BlobEndpoint={blobs};",
    )
    with lake_on(emulator, tmp_path) as lake:
        table = make(lake, CASES[about], form)
        for version in (None, 1):
            check_kernel_readers(lake, duck, table, version, about)


def check_kernel_readers(
    lake: deltasql.Lake, duck: DuckDb, table: Any, version: int | None, about: str
) -> None:
    snapshot, options = table.snapshot(version), lake.reader_options
    rows = snapshot.scan().to_arrow()
    names, files = rows.column_names, files_of(snapshot.adds())
    expected = lines(rows, names)
    assert lines(DeltaRs(options).rows(table.location, version), names) == expected
    assert DeltaRs(options).files(table.location, version) == files
    assert lines(duck.rows(table.location, version), names) == expected
    polars = Polars(options)
    if about == ODD:
        # It asks for the path as the log spells it, where it should decode it.
        with pytest.raises(FileNotFoundError):
            polars.rows(table.location, version)
    elif "v2Checkpoint" in snapshot.state.reader_features:
        with pytest.raises(Exception, match="polars does not support"):
            polars.rows(table.location, version)
    else:
        assert lines(polars.rows(table.location, version), names) == expected
