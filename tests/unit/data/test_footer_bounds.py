"""Stats whose bounds come from the footer are those that a look at the values gives."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.data.arrow_schema import from_arrow
from deltasql.data.writing import writer
from deltasql.data.writing.footer_bounds import FooterBounds
from deltasql.data.writing.stats import indexed

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("inner", pa.struct([("text", pa.string())])),
        # A path that the file has twice.
        ("inner.text", pa.string()),
        ("long", pa.int64()),
    ]
)
_TEXTS = st.one_of(
    st.none(),
    st.text(max_size=40),
    st.integers(0, 1500).map(lambda size: "é" * size),
    st.text(alphabet="\0\x7f\x80\ud7ff\ue000\uffff\U0010ffff", max_size=3),
)
_FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5]), st.floats(width=32))
_ROWS = st.lists(st.tuples(_TEXTS, _FLOATS, _FLOATS, _TEXTS, _TEXTS), min_size=1, max_size=6)


def stats_of(tables: list[pa.Table]) -> Any:
    layout: Any = SimpleNamespace(leaves=tuple(indexed(from_arrow(SCHEMA), {})))
    file = writer._OpenFile(layout, SCHEMA)
    for table in tables:
        file.write(table)
    return json.loads(file.finish()[1])


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    # Long enough that the writer keeps statistics.
    rows = rows * (1 + writer._FEW_ROWS // len(rows))
    texts, doubles, floats, inner, same = (list(values) for values in zip(*rows, strict=True))
    nested = [None if text is None else {"text": text} for text in inner]
    return pa.table([texts, doubles, floats, nested, same, list(range(len(rows)))], schema=SCHEMA)


@settings(deadline=None)
@given(st.lists(_ROWS, min_size=1, max_size=3))
def test_the_footer_says_the_same(groups):
    tables = [table_of(rows) for rows in groups]
    told = stats_of(tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FooterBounds, "of", lambda *_: frozenset())
        looked = stats_of(tables)
    # A row group of nothing but NaN has no bounds in its footer.
    for name in ("double", "float"):
        only_nan = [
            all(value is None or value != value for value in table[name].to_pylist())
            and table[name].null_count < len(table)
            for table in tables
        ]
        if any(only_nan):
            assert name not in told["minValues"]
            looked["minValues"].pop(name, None)
    assert told == looked


def test_the_values_are_not_looked_at_twice(monkeypatch):
    seen: list[str] = []
    real = writer.Collector.add.__globals__["_large_bounds"]
    monkeypatch.setitem(
        writer.Collector.add.__globals__,
        "_large_bounds",
        lambda column, kind: (seen.append(kind), real(column, kind))[1],
    )
    stats = stats_of([table_of([("a", 1.0, 2.0, "b", "c"), ("z", -0.0, 3.0, "y", "x")])])
    assert stats["minValues"]["text"] == "a"
    assert stats["maxValues"]["text"] == "z"
    assert str(stats["minValues"]["double"]) == "0.0"
    assert sorted(seen) == ["integer", "string", "string"]


def test_bounds_that_the_footer_lacks_are_left_out(monkeypatch):
    plain = writer.pq.ParquetWriter
    monkeypatch.setattr(
        writer.pq, "ParquetWriter",
        lambda *args, **options: plain(*args, **{**options, "write_statistics": False}),
    )  # fmt: skip
    stats = stats_of([table_of([("a", 1.0, 2.0, "b", "c")])])
    assert sorted(stats["minValues"]) == ["inner", "inner.text", "long"]
    assert stats["nullCount"]["text"] == 0
