"""Made-up deletes, updates and merges from Arrow: the rows, changes and metrics of a model."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltasql
from deltasql.data.reading.reader import read_files
from deltasql.errors import ValidationError
from deltasql.log.feed import as_add
from deltasql.spec.actions import AddFile, CdcFile, RemoveFile
from tests.lake.dml.model import NAMES, DoubledError, Rows
from tests.row_operations import ARROW, batch, operations, row, run_from_arrow
from tests.sizes import FULL

COUNTER = itertools.count()
FEED = "delta.enableChangeDataFeed"
PROPERTIES = ("delta.enableDeletionVectors", "delta.enableRowTracking", FEED)
METRICS = {
    "delete": ("numDeletedRows", "numTargetRowsDeleted"),
    "update": ("numUpdatedRows", "numTargetRowsUpdated"),
    "insert": ("numTargetRowsInserted",),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made-up")
    url = f"sqlite:///{root / 'lake.db'}"
    with deltasql.connect(url, location=root.as_uri(), settings={"mirror.mode": "off"}) as lake:
        yield lake


def _run(table, model: Rows, operation) -> None:
    try:
        expected = model.run(operation)
    except DoubledError:
        with pytest.raises(ValidationError, match="several rows"):
            run_from_arrow(table, operation)
        return
    result = run_from_arrow(table, operation)
    metrics = getattr(result, "metrics", result)
    for verb, names in METRICS.items():
        assert sum(metrics.get(name, 0) for name in names) == expected.get(verb, 0), verb


def _changes(table, after: int) -> Counter[Any]:
    """The feed since a version, by the rules of the Delta protocol alone."""
    state = table.snapshot().state
    found: Counter[Any] = Counter()

    def note(file: Any, kind: str | None) -> None:
        columns = [*state.schema.fields]
        if kind is None:
            columns.append(type(columns[0])("_change_type", columns[-1].type))
        for part in read_files(
            table.objects,
            [file],
            schema=type(state.schema)(tuple(columns)),
            partition_columns=state.partition_columns,
        ):
            for item in part.to_pylist():
                found[(*(item[name] for name in NAMES), kind or item["_change_type"])] += 1

    for change in table.changes(after + 1):
        own = [action for action in change.actions if isinstance(action, CdcFile)]
        for action in own:
            note(AddFile(path=action.path, size=action.size, modification_time=0,
                         partition_values=action.partition_values), None)  # fmt: skip
        for action in () if own else change.actions:
            if isinstance(action, AddFile) and action.data_change:
                note(action, "insert")
            elif isinstance(action, RemoveFile) and action.data_change:
                note(as_add(action), "delete")
    return found


@pytest.mark.timeout(1800)
@settings(
    max_examples=300 if FULL else 40,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=3),
    st.lists(operations, min_size=1, max_size=4),
    st.sets(st.sampled_from(PROPERTIES)),
    st.booleans(),
    st.sampled_from(["none", "name"]),
    st.booleans(),
)
def test_made_up_operations(made, files, chosen, properties, partitioned, mode, in_transaction):
    settings_ = dict.fromkeys(properties, "true")
    if FEED not in properties:
        settings_["delta.columnMapping.mode"] = mode
    table = made.create_table(
        f"t{next(COUNTER)}", ARROW, partition_by=["p"] if partitioned else [], properties=settings_
    )
    for rows in files:
        table.append(batch(rows))
    start = table.version
    model = Rows([item for rows in files for item in rows])
    if in_transaction:
        with made.transaction() as tx:
            for operation in chosen:
                _run(tx.table(table.name), model, operation)
    else:
        for operation in chosen:
            _run(table, model, operation)
    found = table.scan().to_arrow()
    assert found.schema.equals(pa.schema(ARROW))
    assert Counter(tuple(item.values()) for item in found.to_pylist()) == Counter(model.rows)
    if FEED in properties and not in_transaction:
        assert _changes(table, start) == model.changes
    assert made.check(table.name).tables[table.name].ok


def test_row_ids_stay_with_their_rows(made):
    tracked = {"delta.enableRowTracking": "true"}
    for more in ({}, {"delta.enableDeletionVectors": "true"}):
        table = made.create_table(f"ids{next(COUNTER)}", ARROW, properties=tracked | more)
        table.append(batch([(n, n % 2, "a") for n in range(6)]))
        before = _ids(table)
        table.delete("id = 0")
        table.update("id = 1", {"v": "'b'"})
        source = batch([(2, 0, "c"), (9, 0, "new")])
        merge = table.merge(source, "target.id = source.id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        after = _ids(table)
        assert {key: after[key][0] for key in range(1, 6)} == {
            key: before[key][0] for key in range(1, 6)
        }
        assert after[9][0] not in {identity for identity, _ in before.values()}
        # What was merely moved keeps the version of its last change, what was set has a new one.
        assert {key: after[key][1] for key in (1, 2, 3, 5, 9)} == {1: 3, 2: 4, 3: 1, 5: 1, 9: 4}


def _ids(table) -> dict[int, tuple[int, int]]:
    from deltasql.data.reading.placed import PlacedRows

    snapshot = table.snapshot()
    reader = PlacedRows(table.objects, snapshot.state)
    found = {}
    for part in reader.read(list(snapshot.adds()), ids=True):
        for item in part.to_pylist():
            values = list(item.values())
            found[item["id"]] = (values[3], values[4])
    return found
