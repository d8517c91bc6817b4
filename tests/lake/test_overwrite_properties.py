"""Made-up overwrites: what is left and what is new, as DuckDB says of the rows."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltasql
from tests.lake.duckdb_rows import DuckDbRows, shown
from tests.sizes import FULL
from tests.unit.predicate_model import ARROW, ROWS, TYPES, arrow, predicates, sql, truth

# Binary columns don't partition: folders are text.
PARTITIONS = [path[0] for path, name in TYPES.items() if len(path) == 1 and name != "binary"]
COUNTER = itertools.count()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made-up")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


@pytest.fixture(scope="module")
def duckdb_rows():
    return DuckDbRows()


def _table(rows: list[Any], ids: range) -> pa.Table:
    return arrow(rows).append_column("id", pa.array(ids, pa.int64()))


def _in_partition(row: Any, by: list[str]) -> Any:
    """The row as it will be read: an empty text is null in a partition."""
    return row | {(name,): None for name in by if row[(name,)] == ""}


@pytest.mark.timeout(1800)
@settings(
    max_examples=400 if FULL else 40,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.data(),
    st.lists(ROWS, min_size=1, max_size=3),
    st.lists(st.sampled_from(PARTITIONS), max_size=3, unique=True),
    st.sampled_from(["none", "name", "id"]),
    st.booleans(),
    st.booleans(),
)
def test_an_overwrite_leaves_what_the_condition_spares(
    made, duckdb_rows, data, files, by, mode, in_transaction, feed
):
    given_rows = [_in_partition(row, by) for rows in files for row in rows]
    predicate = data.draw(predicates(given_rows))
    fitting = [row for row in given_rows if truth(predicate, row)]
    new = data.draw(st.lists(st.sampled_from(fitting), max_size=2)) if fitting else []

    properties = {"delta.columnMapping.mode": mode, "delta.enableChangeDataFeed": str(feed).lower()}
    table = made.create_table(
        f"t{next(COUNTER)}", _table([], range(0)).schema, partition_by=by, properties=properties
    )
    start = 0
    for rows in files[:-1] if in_transaction else files:
        table.append(_table(rows, range(start, start + len(rows))))
        start += len(rows)
    added = _table(new, range(1000, 1000 + len(new)))
    if in_transaction:
        # The last append is the transaction's own.
        with made.transaction() as tx:
            inside = tx.table(table.name)
            inside.append(_table(files[-1], range(start, start + len(files[-1]))))
            before = inside.scan().to_arrow()
            inside.overwrite(added, where=sql(predicate))
    else:
        before = table.scan().to_arrow()
        table.overwrite(added, where=sql(predicate))

    gone = duckdb_rows.satisfying(before, predicate)
    kept = before.filter([number not in gone for number in before.column("id").to_pylist()])
    added = added.cast(before.schema)
    assert shown(table.scan().to_arrow()) == shown(pa.concat_tables([kept, added])), sql(predicate)


def test_every_type_is_judged():
    assert set(ARROW) == set(TYPES.values())
