"""A commit from Spark SQL whose answer is lost: asked for again by its id, on PostgreSQL."""

from __future__ import annotations

import pytest

import deltasql
import deltasql.spark
from tests.spark.test_lost_answers import answers_lost


@pytest.fixture
def remote(postgres_server, postgres_dbname, postgres_proxy, tmp_path, spark):
    url = postgres_server.url(postgres_dbname, port=postgres_proxy.port)
    settings = {"sql.timeout": "2s", "mirror.mode": "off"}
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=settings) as lake:
        database = deltasql.spark.attach(spark, lake, catalog="remote")
        yield lake
        database.detach()


def test_each_statement_counts_once(
    spark, remote, postgres_server, postgres_dbname, postgres_proxy
):
    direct = postgres_server.url(postgres_dbname)
    spark.sql("CREATE TABLE remote.s.t (id BIGINT)")
    spark.sql("INSERT INTO remote.s.t VALUES (1)")
    for statement in (
        "INSERT INTO remote.s.t VALUES (2)",
        "UPDATE remote.s.t SET id = 3 WHERE id = 1",
    ):
        before = remote.table("s.t").version
        with answers_lost(direct, postgres_proxy, stays_away=False) as cut:
            spark.sql(statement)
        assert cut.is_set()
        assert remote.table("s.t").version == before + 1
    assert sorted(row.id for row in spark.table("remote.s.t").collect()) == [2, 3]
