"""A place has one spelling, whatever its location is written like."""

import pytest

from deltasql.places import flaw_of, overlap, place_of


@pytest.mark.parametrize(
    "spelling",
    [
        "/no/such/a b",
        "/no/such/a b/",
        "/no//such/./a b",
        "/no/such/x/../a b",
        "file:///no/such/x/%2E./a b",
        "file:/no/such/a b",
        "file:///no/such/a b",
        "file:///no/such/a%20b/",
        "file://localhost/no/such/a%20b",
        "FILE:///no/such/%61%20b",
    ],
)
def test_local_spellings(spelling):
    assert place_of(spelling) == "file:/no/such/a b/"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://bucket/a/b", "s3a://bucket/a/b/"),
        ("s3://bucket/a/b", "S3://Bucket/a//b"),
        ("s3://bucket/a/b", "s3://bucket/a/%62"),
        ("s3://bucket/a/b", "s3://bucket/c/../a/b"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/a/b", "s3://bucket/a/b#2"),
        ("s3://bucket/a/b", "s3://bucket/a/b?x#y"),
        ("s3://bucket/a/b", "s3://bucket:80/a/b"),
        ("az://box/a", "abfss://box@account.dfs.core.windows.net/a"),
        ("az://box/a", "azure://box/a/"),
        ("gs://bucket/a", "GS://bucket/a"),
    ],
)
def test_remote_spellings(one, other):
    assert place_of(one) == place_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://bucket/a", "s3://other/a"),
        ("s3://bucket/a", "gs://bucket/a"),
        ("s3://bucket/a", "s3://bucket/A"),
        ("/no/a", "/no/A"),
        # A percent sign of a path is one; of a URI it begins an escape.
        ("/no/a%20b", "file:///no/a%20b"),
    ],
)
def test_other_places(one, other):
    assert not overlap(place_of(one), place_of(other))


@pytest.mark.parametrize(
    ("one", "other", "do_overlap"),
    [
        ("/no/a", "/no/a/b", True),
        ("/no/a/b", "/no/a", True),
        ("/no/a/b", "/no/a/bc", False),
        ("/", "/no/a", True),
        ("s3://bucket", "s3a://bucket/a", True),
        ("s3://bucket/a", "s3://bucket/ab", False),
    ],
)
def test_within_goes_by_whole_names(one, other, do_overlap):
    assert overlap(place_of(one), place_of(other)) is do_overlap


@pytest.mark.parametrize(
    ("location", "flaw"),
    [
        ("s3://key:secret@bucket/lake", "a user or a password"),
        ("gs://token@bucket/lake", "a user or a password"),
        ("abfss://user:secret@account.dfs.core.windows.net/lake", "a user or a password"),
        ("s3://lake/t/q#2", "fragment"),
        ("gs://lake/t/q?x=1", "query"),
        ("s3://lake:80/t", "port"),
        ("s3://lake/y\\q", "backslash"),
        ("s3://lake/y%5Cq", "backslash"),
        ("/y\\q", "backslash"),
        ("s3://lake/a\tb", "control"),
        ("/a\0b", "control"),
        ("/a\udcff", "not text"),
        ("s3://lake/a ", "blanks"),
        (" s3://lake/a", "blanks"),
        ("s3://[lake/a", "host"),
        ("s3://lake]/a", "host"),
        ("hdfs://[lake]/a", "host"),
        ("file://[/a", "host"),
        ("abfss://[lake@account.dfs.core.windows.net/a", "host"),
        ("s3://la\uff0fke/a", "host"),
    ],
)
def test_what_others_may_take_for_another_place(location, flaw):
    assert flaw in flaw_of(location)


@pytest.mark.parametrize(
    "location",
    [
        "/größe a/50% #1?",
        "/y%5Cq",
        "file:///a%20b",
        "s3://lake/a%23b",
        "abfss://box@account.dfs.core.windows.net/a:b",
        "memory:///a",
        "s3://lake",
    ],
)
def test_what_is_plain(location):
    assert flaw_of(location) is None
