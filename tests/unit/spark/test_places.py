"""Locations as Spark's side spells them, and as the lake does."""

from __future__ import annotations

import pytest

from deltasql.spark.catalog.places import lake_location
from deltasql.spark.native.gateway import hadoop_location


@pytest.mark.parametrize("location", ["s3://bucket/a/b", "gs://bucket/a", "/data/a b"])
def test_a_location_comes_back_from_hadoop_as_it_was(location):
    assert lake_location(hadoop_location(location)) == location


def test_a_local_path_of_hadoop_is_no_url():
    assert lake_location("file:/data/a%20b") == "/data/a%20b"
