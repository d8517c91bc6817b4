"""What the database itself says of places, where writers may only call functions."""

from __future__ import annotations

import psycopg
import pytest

from deltasql.places import place_of
from deltasql.store.connect import open_log

pytestmark = pytest.mark.postgres

LOCATIONS = (
    "/nowhere/lake/t",
    "/nowhere//lake/./t/",
    "/nowhere/x/../lake/t",
    "/nowhere/a%20b",
    "/",
    "/../..",
    "file:/nowhere/t",
    "file:///nowhere/a%20b/%c3%a9",
    "FILE://localhost/nowhere/t",
    "file:///nowhere/50%",
    "s3://bucket/lake/t",
    "s3a://BUCKET/lake/t/",
    "s3://key@bucket:9000/lake/t?x#y",
    "s3://bucket",
    "s3://bucket//a/../b%2Fc",
    "gs://bucket/lake/%D0%B6",
    "az://container/lake",
    "abfss://container@account.dfs.core.windows.net/lake/t",
    "memory://x/y",
)


def test_a_location_names_the_same_place_in_sql(postgres_url):
    open_log(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        for location in LOCATIONS:
            (found,) = connection.execute("SELECT dl_place_of(%s)", [location]).fetchone()
            assert found == place_of(location), location
        for location in ("relative/t", "", "s3://bucket/%ff", "file:t"):
            (found,) = connection.execute("SELECT dl_place_of(%s)", [location]).fetchone()
            assert found is None, location
