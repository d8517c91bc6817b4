"""The `_last_checkpoint`: its checksum is the spec's, and it never goes back."""

from __future__ import annotations

import json
from hashlib import md5

import pytest

from deltasql.delta_log.checkpoint.writing import CheckpointSummary
from deltasql.delta_log.last_checkpoint import (
    canonical,
    checksum,
    is_newer,
    parse_last_checkpoint,
    render_last_checkpoint,
)


def summary(version: int = 10) -> CheckpointSummary:
    return CheckpointSummary(version=version, size=30, size_in_bytes=2000, num_of_add_files=18)


def test_rule_33_says_where_the_checkpoint_is():
    content = render_last_checkpoint(summary())
    assert json.loads(content) == {
        "version": 10,
        "size": 30,
        "sizeInBytes": 2000,
        "numOfAddFiles": 18,
        "checksum": md5(
            b'"numOfAddFiles"=18,"size"=30,"sizeInBytes"=2000,"version"=10', usedforsecurity=False
        ).hexdigest(),
    }
    assert parse_last_checkpoint(content) == 10


def test_rule_34_the_example_of_the_spec():
    text = (
        """{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], """
        """{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}"""
    )
    assert canonical(json.loads(text)) == (
        '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,'
        '"k1"+"k3"+2+"k4"="v4","k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6",'
        '"k1"+"k3"+2+"k5"+2="v7"'
    )
    assert checksum(json.loads(text)) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"k": "a€+"}, '"k"="a%E2%82%AC%2B"'),
        ({"k": "%'`~!@#/.>"}, '"k"="%25%27%60~%21%40%23%2F.%3E"'),
        ({"b": None, "a": True, "c": False}, '"a"=true,"b"=null,"c"=false'),
        ({"a b": 1}, '"a%20b"=1'),
        ({"checksum": 1, "x": {"checksum": 2}}, '"x"+"checksum"=2'),
        ({"n": 9223372036854775807}, '"n"=9223372036854775807'),
    ],
)
def test_rule_34_canonical_form(fields, expected):
    assert canonical(fields) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"version":"1","size":2}',
        b'{"version":-1,"size":2}',
        b'{"version":true,"size":2}',
        b'{"version":1,"size":2,"checksum":"0"}',
        b"\xff\xfe",
    ],
)
def test_rule_33_a_corrupt_one_is_as_good_as_none(content):
    assert parse_last_checkpoint(content) is None
    assert is_newer(summary(), content)


def test_rule_33_never_goes_back():
    assert is_newer(summary(10), None)
    assert is_newer(summary(10), render_last_checkpoint(summary(9)))
    assert not is_newer(summary(10), render_last_checkpoint(summary(10)))
    assert not is_newer(summary(10), render_last_checkpoint(summary(11)))
    assert not is_newer(summary(10), b'{"version":11,"size":1,"future":{}}')
