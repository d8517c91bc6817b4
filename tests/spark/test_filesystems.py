"""A session that can't reach the lake is refused with the package to add, not by Hadoop."""

from __future__ import annotations

import pytest

import deltasql
import deltasql.spark
from deltasql.errors import ConfigError
from deltasql.spark.sessions import filesystems, jars


def test_packages_by_the_version_of_hadoop():
    version = filesystems.hadoop_version()
    found = filesystems.packages_for("s3://bucket/lake")
    assert found is not None
    assert found.wanted[0] == f"org.apache.hadoop:hadoop-aws:{version}"
    assert filesystems.packages_for("/data/lake") is None
    assert filesystems.packages_for(None) is None


def test_a_folder_that_was_named_has_all_jars(monkeypatch, tmp_path):
    assert jars.find_client("s3://bucket/lake", tmp_path) == []
    monkeypatch.setenv(jars.VARIABLE, str(tmp_path))
    assert jars.find_client("s3://bucket/lake") == []


@pytest.mark.parametrize(
    ("location", "package"),
    [
        ("s3://bucket/lake", "org.apache.hadoop:hadoop-aws:"),
        ("abfss://c@account.dfs.core.windows.net/lake", "org.apache.hadoop:hadoop-azure:"),
    ],
)
def test_attach_names_the_package(spark, sqlite_url, location, package):
    options = {"azure.account_name": "account"} if "abfss" in location else {}
    with (
        deltasql.connect(sqlite_url, location=location, settings=options) as lake,
        pytest.raises(ConfigError, match="can't reach") as caught,
    ):
        deltasql.spark.attach(spark, lake)
    assert f"spark.jars.packages={package}{filesystems.hadoop_version()}" in caught.value.remedy
