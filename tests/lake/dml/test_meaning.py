"""What conditions mean where engines disagree: NaN, floats, odd texts, malformed ones."""

import math

import pyarrow as pa
import pytest

from deltasql.errors import ValidationError

NAN = math.nan


@pytest.fixture
def made(lake):
    def make(**columns):
        return lake.create_table(f"t{len(lake.tables())}", data=pa.table(columns))

    return make


def _left(table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


@pytest.mark.parametrize(
    "condition",
    [
        "f > 1",
        "f > 1 and abs(id) < 9",
        "f > 1 + 0",
        "f > cast(1 as double)",
        "f <= cast('NaN' as double)",
        "f >= cast('Infinity' as double) or f = 5",
    ],
)
def test_nan_is_the_greatest_number_and_null_is_none(made, condition):
    table = made(id=[0, 1, 2], f=[NAN, 5.0, None])
    table.delete(condition)
    assert _left(table) == [2]


@pytest.mark.parametrize("source", [[NAN], [NAN, 5.0], [5.0, NAN, 7.0]])
def test_nan_matches_itself_in_a_merge(made, source):
    table = made(id=[0, 1, 2], f=[NAN, 5.0, None])
    merge = table.merge(pa.table({"f": source}), "target.f = source.f").when_matched_delete()
    merge.when_not_matched_insert(values={"id": "99", "f": "source.f"}).execute()
    expected = {0, 1, 2} - {0} - ({1} if 5.0 in source else set()) | (
        {99} if 7.0 in source else set()
    )
    assert _left(table) == sorted(expected)


@pytest.mark.parametrize(
    ("condition", "goes"),
    [
        ("g > 0.1", True),
        ("g > 0.1 and abs(id) < 9", True),
        ("g = 0.1", False),
        ("abs(g) = 0.1", False),
        ("g + 0 = 0.1", False),
        ("coalesce(g, 0) = 0.1", False),
        ("g in (0.1, 7)", False),
        ("case when g = 0.1 then true else false end", False),
        ("g = cast(0.1 as float)", True),
    ],
)
def test_a_float_beside_another_number_is_a_double(made, condition, goes):
    table = made(id=[0], g=pa.array([0.1], pa.float32()))
    table.delete(condition)
    assert _left(table) == ([] if goes else [0])


@pytest.mark.parametrize(
    "condition",
    [
        "id = 1) or (true",
        "id >= 0) where (id = 1",
        "id >= 0) limit (0",
        "(id = 1",
        "id = 1 where true",
    ],
)
def test_malformed_text_is_refused(made, condition):
    table = made(id=[0, 1, 2])
    for attempt in (
        lambda: table.delete(condition),
        lambda: table.update(condition, {"id": "9"}),
        lambda: table.merge(pa.table({"id": [1]}), condition).when_matched_delete().execute(),
    ):
        with pytest.raises(ValidationError, match="malformed"):
            attempt()
    with pytest.raises(ValidationError, match="malformed"):
        table.update("id = 1", {"id": "1) + (2"})
    assert _left(table) == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "goes"), [("stra\u00dfe", "upper"), ("\u0130", "lower"), ("\u03a3", "lower")]
)
def test_what_becomes_several_characters_in_java_is_refused(made, value, goes):
    table = made(id=[0, 1], s=[value, "plain \u00e4"])
    with pytest.raises(ValidationError, match="one character into several"):
        table.update("true", {"s": f"{goes}(s)"})
    table.update("id = 1", {"s": f"{goes}(s)"})
    assert table.scan(where="id = 1").to_arrow()["s"][0].as_py() == getattr("plain \u00e4", goes)()
