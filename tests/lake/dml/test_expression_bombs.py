"""Expressions come with tables, whoever made them: none takes memory that nobody gave it."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import UnsupportedFeatureError, ValidationError
from tests.adoption.logs import write_log

MOST_MEMORY = 600 * 1024  # kilobytes, as getrusage counts
ROWS = pa.table({"id": list(range(3000)), "s": ["x"] * 3000})
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "s", "type": "string", "nullable": True, "metadata": {}},
    ],
}
# By themselves they would take gigabytes for every row, or for the expression.
BOMBS = {
    "repeat": "length(repeat(s, 100000000)) > 0",
    "a repeat without columns": "length(repeat('x', 2000000000)) > 0",
    "repeats within one another": "length(repeat(repeat(repeat(s, 1000), 1000), 1000)) > 0",
    "lpad": "length(lpad(s, 2000000000, 'y')) > 0",
    "rpad": "length(rpad(s, 2000000000)) > 0",
    "replace": "length(replace(repeat(s, 1000), 'x', repeat('y', 100000))) > 0",
    "concat": f"length(concat({', '.join(['repeat(s, 100000000)'] * 20)})) > 0",
}
NESTED = {
    "upper": f"length({'upper(' * 40}s{')' * 40}) > 0",
    "remainders": f"id{' % 7' * 60} > 0",
    "repeat": f"length({'repeat(' * 40}s{', 1)' * 40}) > 0",
}


def _append(tmp_path: Path, condition: str) -> None:
    """To a table of others, whose CHECK it is."""
    root = tmp_path / "foreign"
    metadata: dict[str, Any] = {
        "id": "made-up", "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA), "partitionColumns": [],
        "configuration": {"delta.constraints.bomb": condition}, "createdTime": 0,
    }  # fmt: skip
    protocol = {"minReaderVersion": 1, "minWriterVersion": 3}
    write_log(root, [{"protocol": protocol}, {"metaData": metadata}])
    with deltasql.connect(f"sqlite:///{tmp_path / 'x.db'}") as lake:
        lake.adopt(str(root), "t").append(ROWS)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("condition", BOMBS.values(), ids=BOMBS)
def test_a_text_that_grows_without_end(tmp_path, condition):
    before = _peak()
    with pytest.raises(ValidationError) as caught:
        _append(tmp_path, condition)
    assert "a text of more than 100000 characters" in caught.value.cause
    assert _peak() - before < MOST_MEMORY


@pytest.mark.parametrize("condition", NESTED.values(), ids=NESTED)
def test_an_expression_that_doubles_with_each_function(tmp_path, condition):
    before = _peak()
    with pytest.raises(UnsupportedFeatureError, match="so large an expression"):
        _append(tmp_path, condition)
    assert _peak() - before < MOST_MEMORY


def test_what_grows_a_little_is_done(tmp_path):
    _append(
        tmp_path,
        "repeat(s, 3) = 'xxx' AND repeat(s, -1) = '' AND lpad(s, 3, 'ab') = 'abx'"
        " AND rpad(s, -1) = '' AND replace(s, 'x', 'yz') = 'yz' AND replace(s, '', 'y') = 'x'"
        " AND replace(repeat(s, 100000), 'x', 'y') = repeat('y', 100000)"
        f" AND length({'upper(' * 8}s{')' * 8}) = 1",
    )
