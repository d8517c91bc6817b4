"""`char(n)` and `varchar(n)` as Delta enforces them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltasql.data.writing.lengths import check_lengths, limits, obstacle
from deltasql.errors import SchemaMismatchError
from deltasql.spec.schema import Primitive, StructField, StructType


def schema(**notes: str) -> StructType:
    note = "__CHAR_VARCHAR_TYPE_STRING"
    return StructType(
        tuple(
            StructField(name, Primitive("string"), metadata={note: text} if text else {})
            for name, text in notes.items()
        )
    )


LIMITED = limits(schema(free="", c="char(3)", v="varchar(2)"))


def fitted(*rows: tuple[str | None, str | None]) -> list[tuple]:
    texts = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table({"free": ["as it is"] * len(rows), "c": texts[0], "v": texts[1]})
    found = check_lengths(table, LIMITED)
    reader = check_lengths(table.to_reader(), LIMITED)
    assert reader.read_all() == found
    assert set(found.column("free").to_pylist()) == {"as it is"}
    return list(zip(found.column("c").to_pylist(), found.column("v").to_pylist(), strict=True))


def test_what_fits_stays_as_it_is():
    assert fitted(("é", "x"), (None, None), ("abc", "日本"), ("", " ")) == [
        ("é", "x"),
        (None, None),
        ("abc", "日本"),
        ("", " "),
    ]


@pytest.mark.parametrize("row", [("abcd", None), (None, "abc"), (None, "ab ")])
def test_longer_ones_are_refused(row):
    with pytest.raises(SchemaMismatchError, match="too long for the column"):
        fitted(("a", "a"), row)


def test_lengths_inside_of_other_types_are_an_obstacle():
    assert obstacle(schema(c="char(3)", v="varchar(2)")) is None
    assert "array<varchar(2)>" in (obstacle(schema(a="array<varchar(2)>")) or "")
    assert limits(schema(a="array<varchar(2)>")) == ()
