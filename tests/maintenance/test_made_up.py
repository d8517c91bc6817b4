"""Made-up lives of a table: changes of rows among all that maintenance does, by a model.

Rows are those of the model, in every version that is kept and in clones; no two have one id; the
log and its mirror are sound.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltasql
from deltasql.data.reading.placed import PlacedRows
from deltasql.errors import ValidationError
from tests.lake.dml.model import DoubledError, Row, Rows
from tests.maintenance.tables import AT_ONCE
from tests.readers.engines import DeltaRs, lines, place
from tests.row_operations import ARROW, batch, operations, row, run_from_arrow
from tests.sizes import FULL

COUNTER = itertools.count()
VECTORS = "delta.enableDeletionVectors"
TRACKED = {"delta.enableRowTracking": "true", "delta.checkpointInterval": "2"}


@dataclass
class Life:
    """A table, what its versions should hold, and the oldest one whose files are kept."""

    table: deltasql.Table
    model: Rows
    versions: dict[int, list[Row]] = field(default_factory=dict)
    kept_from: int = 0

    def must_be_sound(self) -> None:
        for version, rows in self.versions.items():
            if version >= self.kept_from:
                found = self.table.snapshot(version=version).scan().to_arrow()
                assert Counter(map(_tuple, found.to_pylist())) == Counter(rows), version
        ids = _row_ids(self.table)
        assert len(set(ids)) == len(ids) == len(self.model.rows)


def _tuple(item: dict[str, Any]) -> Row:
    return tuple(item[name] for name in ARROW.names)


def _row_ids(table: deltasql.Table) -> list[int]:
    snapshot = table.snapshot()
    reader = PlacedRows(table.objects, snapshot.state)
    parts = reader.read(list(snapshot.adds()), ids=True)
    # After the table's own columns.
    return [item for part in parts for item in part.column(len(ARROW)).to_pylist()]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[deltasql.Lake]:
    root: Path = tmp_path_factory.mktemp("lives")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


def _vacuum(lake: deltasql.Lake, life: Life) -> None:
    life.table.vacuum(**AT_ONCE, dry_run=False)
    life.kept_from = life.table.version


def _restore(lake: deltasql.Lake, life: Life) -> None:
    version = min(item for item in life.versions if item >= life.kept_from)
    life.table.restore(version=version)
    life.model.rows = list(life.versions[version])


def _drop(lake: deltasql.Lake, life: Life) -> None:
    lake.drop_table(life.table.name)
    life.table = lake.undrop(life.table.name)


def _rename(lake: deltasql.Lake, life: Life) -> None:
    life.table = lake.rename_table(life.table.name, f"renamed{next(COUNTER)}")


def _vectors(lake: deltasql.Lake, life: Life) -> None:
    was = life.table.snapshot().properties.get(VECTORS, "false")
    life.table.set_properties({VECTORS: "false" if was == "true" else "true"})


def _clone(life: Life) -> Life:
    return Life(life.table.clone(f"clone{next(COUNTER)}"), Rows(life.model.rows))


UPKEEP: dict[str, Callable[[deltasql.Lake, Life], object]] = {
    "optimize": lambda _, life: life.table.optimize(),
    "sort": lambda _, life: life.table.optimize(zorder_by=["id", "v"]),
    "reorg": lambda _, life: life.table.reorg(),
    "vacuum": _vacuum,
    "restore": _restore,
    "drop": _drop,
    "rename": _rename,
    "vectors": _vectors,
}

some_rows = st.lists(row, min_size=1, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), some_rows),
        operations,
        st.sampled_from(("clone", *UPKEEP)),
    ),
    min_size=3,
    max_size=12,
)


def _change(life: Life, operation: Any) -> None:
    if operation[0] == "append":
        life.table.append(batch(operation[1]))
        life.model.rows = [*life.model.rows, *operation[1]]
        return
    try:
        life.model.run(operation)
    except DoubledError:
        with pytest.raises(ValidationError, match="several rows"):
            run_from_arrow(life.table, operation)
    else:
        run_from_arrow(life.table, operation)


@pytest.mark.timeout(1800)
@settings(
    max_examples=300 if FULL else 25,
    derandomize=not FULL,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(some_rows, max_size=3), steps, st.booleans(), st.data())
def test_made_up_lives(lake, first, chosen, partitioned, data):
    table = lake.create_table(
        f"life{next(COUNTER)}",
        ARROW,
        partition_by=["p"] if partitioned else [],
        properties=TRACKED,
    )
    lives = [Life(table, Rows([]), {0: []})]
    for rows in first:
        _change(lives[0], ("append", rows))
    for step in chosen:
        life = data.draw(st.sampled_from(lives))
        if step == "clone":
            life = _clone(life)
            lives.append(life)
        elif isinstance(step, str):
            UPKEEP[step](lake, life)
        else:
            _change(life, step)
        life.versions[life.table.version] = list(life.model.rows)
    for life in [*lives, _clone(lives[0])]:
        life.must_be_sound()
        assert lake.check(life.table.name).tables[life.table.name].ok
        assert life.table.mirror.validate().ok
        expected = lines(life.table.scan().to_arrow(), ARROW.names)
        assert lines(DeltaRs().rows(place(life.table), None), ARROW.names) == expected
