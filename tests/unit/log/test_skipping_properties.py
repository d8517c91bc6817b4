"""No file is skipped that has a matching row, whatever the data, the stats and the predicate."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import matching_partitions, may_match
from deltasql.log.pruning.range_predicates import to_ranges
from deltasql.log.pruning.ranges import holds
from deltasql.log.pruning.stats_columns import stats_columns
from deltasql.log.pruning.stats_keys import KeyMaker
from deltasql.spec.partition_values import render_value
from deltasql.spec.schema import Primitive
from tests.unit.predicate_model import (
    NOTHING_BUT_NULLS,
    ROWS,
    SCHEMA,
    TYPES,
    VALUES,
    every_test,
    literals_for,
    predicates,
    sql,
    truth,
)
from tests.unit.stats_model import WRITERS, write_stats

COLUMNS = stats_columns(SCHEMA, [])


@settings(max_examples=250, deadline=None)
@given(st.data(), st.sampled_from(list(TYPES)), WRITERS)
def test_no_test_of_one_column_skips_a_match(data, path, writer):
    values = data.draw(st.lists(st.none() | VALUES[TYPES[path]], min_size=1, max_size=3))
    rows = [NOTHING_BUT_NULLS | {path: value} for value in values]
    literals = literals_for(path, rows)
    stats = write_stats(rows, writer)
    keys = KeyMaker(COLUMNS).keys(stats)
    for predicate in every_test(path, data.draw(literals), data.draw(literals)):
        if any(truth(predicate, row) for row in rows):
            bound = bind(predicate, SCHEMA)
            assert may_match(bound, SCHEMA, partition_values={}, stats=stats)
            assert holds(to_ranges(bound, SCHEMA, COLUMNS), keys)


@settings(max_examples=80, deadline=None)
@given(st.data(), ROWS, WRITERS, st.integers(0, 2))
def test_no_file_with_a_matching_row_is_skipped(data, rows, writer, deleted):
    predicate = data.draw(predicates(rows))
    stats = write_stats(rows, writer)
    bound = bind(parse(sql(predicate)), SCHEMA)
    if any(truth(predicate, row) for row in rows[min(deleted, len(rows) - 1) :]):
        assert may_match(bound, SCHEMA, partition_values={}, stats=stats)
        assert holds(to_ranges(bound, SCHEMA, COLUMNS), KeyMaker(COLUMNS).keys(stats))


@settings(max_examples=80, deadline=None)
@given(st.data(), ROWS, st.sets(st.sampled_from([p[0] for p in TYPES if len(p) == 1])))
def test_no_partition_with_a_matching_row_is_skipped(data, rows, partition_columns):
    # An empty text is null in a partition, in the row as it will be read too.
    empty = {(name,): None for name in partition_columns}
    rows = [row | {p: None for p in empty if row[p] in ("", b"")} for row in rows]
    predicate = data.draw(predicates(rows))
    bound = bind(parse(sql(predicate)), SCHEMA)
    partitions = [
        (n, {name: render_value(row[name,], Primitive(TYPES[name,])) for name in partition_columns})
        for n, row in enumerate(rows)
    ]
    kept = matching_partitions(bound, SCHEMA, partition_columns, partitions)
    assert {n for n, row in enumerate(rows) if truth(predicate, row)} <= set(kept)
