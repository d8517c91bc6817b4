"""None, some or surely all of a file's rows: what may be removed unread, and what may not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import Match, Pruner
from deltasql.log.removal import every_row, removes, rewritten, sort_by_match
from deltasql.spec.actions import AddFile
from deltasql.spec.partition_values import render_value
from deltasql.spec.schema import Primitive
from tests.unit.log.schemas import schema_of
from tests.unit.predicate_model import ROWS, SCHEMA, TYPES, predicates, sql, truth
from tests.unit.stats_model import WRITERS, write_stats

PARTS = schema_of(
    p="string", q="string", day="date", n="integer", money="decimal(10,2)", at="timestamp", i="long"
)
VALUES = {"p": "a", "q": "a", "day": "2026-01-01", "n": "7", "money": "1.10", "at": None}
STATS = '{"numRecords":3,"minValues":{"i":5},"maxValues":{"i":5},"nullCount":{"i":0}}'


def answer(text, stats=None, **values):
    pruner = Pruner(bind(parse(text), PARTS), PARTS, VALUES)
    return pruner.match(partition_values=VALUES | values, stats=stats)


@pytest.mark.parametrize(
    "text",
    [
        "TRUE", "p = 'a'", "p <=> 'a'", "p IN ('b', 'a', NULL)", "p LIKE 'a%'", "NOT p LIKE 'b'",
        "p IS NOT NULL", "at IS NULL", "NOT at <=> '2026-01-01'", "day >= '2026-01-01'", "n <> 8",
        "NOT n IN (1, 2)", "money BETWEEN 1.1 AND 1.2", "p = 'a' OR i = 9",
        "n = 7 AND day < '2027-01-01'", "NOT (p = 'b' OR n = 1)",
    ],
)  # fmt: skip
def test_partition_values_can_be_sure_of_all(text):
    assert answer(text) is Match.ALL


@pytest.mark.parametrize(
    "text",
    [
        # Two columns, though both are the same here; a column that partitions don't tell of.
        "p = q", "p <=> q", "NOT p <> q", "i = 5", "p = 'a' AND i = 5", "p = 'b' OR i = 5",
        "i IS NOT NULL", "NOT i = 6",
    ],
)  # fmt: skip
def test_what_only_the_rows_can_tell_is_some(text):
    assert answer(text) is Match.SOME
    assert answer(text, STATS) is Match.SOME, "stats are a writer's word, and nothing goes by it"


@pytest.mark.parametrize(
    "text",
    [
        "FALSE", "NULL", "p = 'b'", "NOT p = 'a'", "at = '2026-01-01'", "NOT at = '2026-01-01'",
        "at <> '2026-01-01'", "p NOT IN ('b', NULL)", "p = 'b' AND i = 5",
    ],
)  # fmt: skip
def test_null_is_no_match(text):
    assert answer(text) is Match.NONE


@pytest.mark.parametrize("text", ["day = '2026-01-01'", "day <> '2026-01-01'", "day IS NULL"])
def test_a_value_that_cannot_be_read_is_never_sure(text):
    assert answer(text, day="garbage") is Match.SOME


@pytest.mark.parametrize("far", ["12026-01-01", "+12026-01-01", "10000-01-01"])
def test_a_date_after_all_dates(far):
    assert answer("day = '2026-01-01'", day=far) is Match.NONE
    assert answer("day <= '9999-12-30'", day=far) is Match.NONE
    assert answer("day IS NULL", day=far) is Match.NONE
    assert answer("day > '2026-01-01'", day=far) is Match.ALL
    assert answer("day <> '2026-01-01'", day=far) is Match.ALL
    assert answer("day = '9999-12-31'", day=far) is Match.SOME


def test_a_time_before_all_times():
    at = "-0044-03-15 12:00:00"
    assert answer("at < '2026-01-01'", at=at) is Match.ALL
    assert answer("at >= '2026-01-01'", at=at) is Match.NONE
    assert answer("at < '2026-01-01'", at="0001-01-01T00:00:00+02:00") is Match.ALL
    assert answer("at > '2026-01-01'", at="9999-12-31T23:00:00-02:00") is Match.ALL


def test_only_partition_columns_have_partition_values():
    """A foreign writer may put anything there, and readers take the rest from the file."""
    pruner = Pruner(bind(parse("p = 'a'"), PARTS), PARTS, ["q"])
    assert pruner.match(partition_values={"q": "x", "p": "a"}) is Match.SOME
    assert pruner.match(partition_values={"q": "x", "p": "b"}) is Match.SOME
    assert pruner.match(partition_values={"q": "x", "p": "b"}, stats=STATS) is Match.SOME


def file(path, **values):
    return AddFile(path=path, size=1, modification_time=0, partition_values=VALUES | values)


def test_files_are_parted_by_certainty():
    files = [file("a"), file("b", p="b"), file("c", p="c", q="c", day="garbage")]
    found = sort_by_match(files, bind(parse("p = 'a' OR day = '2026-01-02'"), PARTS), PARTS, VALUES)
    assert [[add.path for add in part] for part in (found.whole, found.partial)] == [["a"], ["c"]]
    unsure = sort_by_match(files, None, PARTS, VALUES)
    assert (unsure.whole, unsure.partial) == ([], files)
    gone = removes([*every_row(files[:1]), *rewritten(files[1:])], deletion_timestamp=5)
    assert [(item.path, item.deletion_timestamp) for item in gone] == [("a", 5), ("b", 5), ("c", 5)]


@settings(max_examples=80)
@given(st.data(), ROWS, st.sets(st.sampled_from([p[0] for p in TYPES if len(p) == 1])), WRITERS)
def test_what_is_sure_is_true_of_every_row(data, rows, partition_columns, writer):
    # An empty text is null in a partition, in the row as it will be read too.
    first = {
        (name,): None if rows[0][(name,)] in ("", b"") else rows[0][(name,)]
        for name in partition_columns
    }
    file_rows = [row | first for row in rows]
    values = {
        name: render_value(first[(name,)], Primitive(TYPES[(name,)])) for name in partition_columns
    }
    predicate = data.draw(predicates(file_rows))
    bound = bind(parse(sql(predicate)), SCHEMA)
    match = Pruner(bound, SCHEMA, partition_columns).match(
        partition_values=values, stats=write_stats(file_rows, writer)
    )
    truths = [truth(predicate, row) is True for row in file_rows]
    assert match is not Match.ALL or all(truths)
    assert match is not Match.NONE or not any(truths)
