from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LogFormatError, ValidationError
from deltasql.spec.paths import (
    check_new_path,
    check_path,
    decode_path,
    encode_path,
    hive_directory,
    is_absolute,
    location_uri,
    object_key,
)

keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@pytest.mark.parametrize(
    ("value", "directory", "logged"),
    [
        ("a b", "p=a b", "p=a%20b"),
        ("a:b", "p=a%3Ab", "p=a%253Ab"),
        ("a/b", "p=a%2Fb", "p=a%252Fb"),
        ("a=b", "p=a%3Db", "p=a%253Db"),
        ("a%b", "p=a%25b", "p=a%2525b"),
        ("a+b", "p=a+b", "p=a+b"),
        ("<|>", "p=<|>", "p=%3C%7C%3E"),
        ("😈é", "p=😈é", "p=😈é"),
        ("a\u00a0b", "p=a\u00a0b", "p=a%C2%A0b"),
        ("\n", "p=%0A", "p=%250A"),
        (None, "p=__HIVE_DEFAULT_PARTITION__", "p=__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_directories_are_escaped_as_spark_does(
    value: str | None, directory: str, logged: str
) -> None:
    assert hive_directory([("p", value)]) == directory
    assert encode_path(directory) == logged
    assert decode_path(logged) == directory


def test_several_partition_columns_nest() -> None:
    assert hive_directory([("a", "1"), ("b/c", None)]) == "a=1/b%2Fc=__HIVE_DEFAULT_PARTITION__"
    assert hive_directory([]) == ""


@given(keys)
def test_encoding_comes_back_and_never_looks_absolute(key: str) -> None:
    encoded = encode_path(key)
    assert decode_path(encoded) == key
    assert not is_absolute(encoded)


@given(keys, keys)
def test_any_partition_makes_a_legal_path(name: str, value: str) -> None:
    path = encode_path(hive_directory([(name, value)]) + "/part-0.parquet")
    check_new_path(path)
    assert object_key(path).count("/") == 1


@pytest.mark.parametrize("path", ["s3://b/k", "file:/a/b", "abfss://c@a/x", "S3A://b/k"])
def test_a_scheme_makes_a_path_absolute(path: str) -> None:
    assert is_absolute(path)
    check_path(path)


@pytest.mark.parametrize("path", ["a", "a:b", "a/b:c", "C:/x", "a%3Ab:c"])
def test_paths_without_a_scheme_are_relative(path: str) -> None:
    assert not is_absolute(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "../a",
        "a/../b",
        "a/%2E%2E/b",
        "a\0",
        "a%00",
        "%2Fa",
        "./a",
        "a%FF",
        "s3://b/../k",
    ],
)
def test_illegal_paths_are_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        check_path(path)
    with pytest.raises(LogFormatError):
        object_key(path)


@pytest.mark.parametrize(
    "path",
    [
        *("a\x01b", "a\nb", "a\x1fb", "a\x7fb", "a\x85b", "p=\t/x"),
        *("a//b", "a///b", "a%2F/b", "a%2f%2Fb"),
        *("s3://bucket//key", "s3://bucket/a//b", "file:////a", "file:///a//b", "s3://b/a\rb"),
    ],
)
def test_what_no_new_file_is_called(path: str) -> None:
    with pytest.raises(ValidationError):
        check_new_path(path)
    check_path(path)
    assert decode_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *("a", "a%0Ab", "a%01b", "a b/c", "é/\u00a0", "p=%252F%252F/x"),
        *("s3://bucket/key", "file:///a/b", "file:/a/b", "abfss://c@a.dfs.core.windows.net/x/y"),
    ],
)
def test_what_a_new_file_may_be_called(path: str) -> None:
    check_new_path(path)


@pytest.mark.parametrize("path", ["", "a\0b", "a%00b", "/a", "../a", "a/"])
def test_what_no_file_is_called_is_nothing_for_a_new_one(path: str) -> None:
    with pytest.raises(ValidationError):
        check_new_path(path)


def test_a_stray_percent_stays() -> None:
    assert decode_path("100%/a%2") == "100%/a%2"


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("file:///a%20b/c", "file:///a%20b/c"),
        ("s3://lake", "s3://lake"),
        ("s3://lake/a b/t/", "s3://lake/a%20b/t"),
        ("s3://lake/a%20b/t", "s3://lake/a%20b/t"),
        ("s3://lake/100%/t", "s3://lake/100%25/t"),
        ("s3://lake/a%2520b", "s3://lake/a%2520b"),
        ("abfss://c@account.dfs.core.windows.net/é+", "abfss://c@account.dfs.core.windows.net/é+"),
    ],
)
def test_a_location_is_one_uri_however_it_is_written(location: str, uri: str) -> None:
    assert location_uri(location) == uri
    assert location_uri(uri) == uri
