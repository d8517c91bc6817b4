"""Tables with every kind of column and rule at once, changed one by one and in transactions: the
rows of a model, and what stock readers, the feed, row ids and the numbers of rows say of them."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltasql
from deltasql.data.reading.placed import PlacedRows
from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.spec.schema import Primitive, StructField, StructType
from tests.lake.dml.model import NAMES, DoubledError, Rows
from tests.readers.engines import DeltaRs, DuckDb, lines, place
from tests.row_operations import batch, operations, row, run_from_arrow
from tests.sizes import FULL

COUNTER = itertools.count()
INT, LONG, TEXT = Primitive("integer"), Primitive("long"), Primitive("string")
NUMBERED = {
    "delta.identity.start": 10,
    "delta.identity.step": 5,
    "delta.identity.allowExplicitInsert": False,
}
SCHEMA = StructType(
    (
        StructField("id", INT),
        StructField("p", INT),
        StructField("v", TEXT),
        StructField("g", LONG, metadata={"delta.generationExpression": "coalesce(id, 0) * 2"}),
        StructField("d", TEXT, metadata={"CURRENT_DEFAULT": "concat('de', 'fault')"}),
        StructField("k", LONG, metadata=NUMBERED),
    )
)
DEFAULTS = {"delta.feature.allowColumnDefaults": "supported"}
# Rows begin below it, and some updates pass it.
LIMIT = 6
VECTORS, TRACKED, FEED = (
    "delta.enableDeletionVectors", "delta.enableRowTracking", "delta.enableChangeDataFeed",
)  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("everything")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


@pytest.fixture(scope="module")
def readers():
    return (DuckDb(), DeltaRs())


def _named(operation: Any) -> Any:
    """All columns by their names: a source without the others is refused otherwise."""
    if operation[0] != "merge":
        return operation
    every = {name: "{t}" + name for name in NAMES}

    def named(clauses: Any) -> Any:
        return [
            (verb.removesuffix(" all"), condition, every if verb.endswith(" all") else values)
            for verb, condition, values in clauses
        ]

    merge = operation[1]
    return "merge", {**merge, **{side: named(merge[side]) for side in ("matched", "absent")}}


def _violates(changes: Counter[Any]) -> bool:
    new = ("insert", "update_postimage")
    return any(item[-1] in new and item[0] is not None and item[0] >= LIMIT for item in changes)


def _run(table, model: Rows, operation) -> None:
    rows, changes = list(model.rows), copy.copy(model.changes)
    try:
        model.run(operation)
    except DoubledError:
        with pytest.raises(ValidationError, match="several rows"):
            run_from_arrow(table, operation)
        return
    if _violates(model.changes - changes):
        model.rows, model.changes = rows, changes
        with pytest.raises(SchemaMismatchError, match="small"):
            run_from_arrow(table, operation)
        return
    run_from_arrow(table, operation)


def _seen(table) -> list[dict[str, Any]]:
    """The rows with their hidden ids, if they have such."""
    snapshot = table.snapshot()
    reader = PlacedRows(table.objects, snapshot.state)
    found = []
    for part in reader.read(list(snapshot.adds()), ids=True):
        names = [*SCHEMA_NAMES, *(("row", "since") if part.num_columns > len(PLAIN) else ())]
        found += [dict(zip(names, item.values(), strict=False)) for item in part.to_pylist()]
    return found


SCHEMA_NAMES = [item.name for item in SCHEMA.fields]
# What a row has beside its ids: its columns, and its place.
PLAIN = [*SCHEMA_NAMES, "row of file", "file"]


def _must_be_sound(table, model: Rows, before: list[dict[str, Any]], version: int) -> None:
    after = _seen(table)
    assert Counter(tuple(item[name] for name in NAMES) for item in after) == Counter(model.rows)
    for item in after:
        assert (item["g"], item["d"]) == ((item["id"] or 0) * 2, "default")
    numbers = [item["k"] for item in after]
    assert len(set(numbers)) == len(numbers)
    assert all(number % 5 == 0 and number >= 10 for number in numbers)
    if after and "row" in after[0]:
        ids = [item["row"] for item in after]
        assert len(set(ids)) == len(ids)
        known = {item["k"]: item for item in before}
        for item in after:
            old = known.get(item["k"])
            if old is None:
                assert item["row"] not in {other["row"] for other in before}
                assert item["since"] > version
            else:
                assert item["row"] == old["row"]
                same = all(item[name] == old[name] for name in NAMES)
                # What did not change is as old as it was; an update may also set what was there.
                assert item["since"] == old["since"] or item["since"] > version
                assert same or item["since"] > version


def _feed_adds_up(table, before: list[dict[str, Any]], version: int) -> None:
    """The rows before and the changes since are the rows there are, in every column."""
    left = Counter(tuple(item[name] for name in SCHEMA_NAMES) for item in before)
    if table.version > version:
        for item in table.change_rows(version + 1).read_all().to_pylist():
            came = item["_change_type"] in ("insert", "update_postimage")
            left[tuple(item[name] for name in SCHEMA_NAMES)] += 1 if came else -1
    assert all(count >= 0 for count in left.values())
    now = Counter(tuple(item[name] for name in SCHEMA_NAMES) for item in _seen(table))
    assert +left == now


@pytest.mark.timeout(1800)
@settings(
    max_examples=300 if FULL else 30,
    derandomize=not FULL,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.lists(row, min_size=1, max_size=5), min_size=1, max_size=2),
    st.lists(operations.map(_named), min_size=1, max_size=4),
    st.sets(st.sampled_from((VECTORS, TRACKED, FEED))),
    st.booleans(),
    st.booleans(),
)
def test_every_rule_at_once(lake, readers, files, chosen, properties, partitioned, in_transaction):
    table = lake.create_table(
        f"t{next(COUNTER)}",
        SCHEMA,
        partition_by=["p"] if partitioned else [],
        properties={**DEFAULTS, **dict.fromkeys(properties, "true")},
    )
    table.add_constraint("small", f"id IS NULL OR id < {LIMIT}")
    for rows in files:
        table.append(batch(rows))
    model = Rows([item for rows in files for item in rows])
    before, version = _seen(table), table.version
    if in_transaction:
        with lake.transaction() as tx:
            for operation in chosen:
                _run(tx.table(table.name), model, operation)
        assert table.version <= version + 1
    else:
        for operation in chosen:
            _run(table, model, operation)
    _must_be_sound(table, model, before, version)
    if FEED in properties:
        _feed_adds_up(table, before, version)
    expected = lines(table.scan().to_arrow(), SCHEMA_NAMES)
    for reader in readers:
        assert lines(reader.rows(place(table), table.version), SCHEMA_NAMES) == expected
    assert lake.check(table.name).tables[table.name].ok
