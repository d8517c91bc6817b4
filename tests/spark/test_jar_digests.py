"""Jars that a repository gives must be those that were tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasql.errors import ConfigError
from deltasql.spark.sessions import jar_digests
from deltasql.spark.sessions.environment import DELTA_FOR_SPARK
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError


def test_another_jar_is_refused(tmp_path: Path) -> None:
    strangers = (
        "io.delta_delta-storage-4.4.0.jar",
        "io.delta_stranger-1.0.jar",
        "a_b-utils-2.35.4.jar",
    )
    for name in strangers:
        jar = tmp_path / name
        jar.write_bytes(b"not it")
        with pytest.raises(ConfigError, match="not the one"):
            jar_digests.check(jar)


def test_every_delta_that_is_fetched_is_pinned() -> None:
    for package in DELTA_FOR_SPARK.values():
        _, artifact, version = package.split(":")
        assert f"{artifact}-{version}.jar" in jar_digests.DIGESTS


def test_the_jars_of_the_tests_are_pinned() -> None:
    """Ours are among them, with the same digests."""
    lines = Path(spark_part.__file__).with_name("jars.sha256").read_text().splitlines()
    pinned = {path.rpartition("/")[2]: digest for digest, path in map(str.split, lines)}
    # Hadoop's client can do without; only Ivy brings it.
    wildfly = "wildfly-openssl-2.2.5.Final.jar"
    assert {**jar_digests.DIGESTS, wildfly: ""}.items() <= {**pinned, wildfly: ""}.items()
    try:
        spark_part.find()
    except PartMissingError as missing:
        pytest.skip(str(missing))
    for folder in (spark_part.JARS, spark_part.OLDER_JARS, spark_part.S3A_JARS):
        spark_part._check_digests(folder.name, folder)


def test_a_changed_jar_of_the_tests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "delta-storage-4.4.0.jar").write_bytes(b"not it")
    with pytest.raises(PartMissingError, match="delta-storage"):
        spark_part._check_digests("jars", tmp_path)
