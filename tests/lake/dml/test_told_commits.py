"""What callers tell of their commits, whatever they commit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import ValidationError

ROWS = pa.table({"id": [1, 2, 3], "n": [10, 20, 30], "t": ["a", "b", "c"]})
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("told")
    url = f"sqlite:///{root / 'lake.db'}"
    with deltasql.connect(url, location=root.as_uri(), settings={"mirror.mode": "off"}) as lake:
        yield lake


TOLD: dict[str, Any] = {"userName": "Jane", "userId": "j", "run": {"attempt": 1, "last": None}}
COMMITS: dict[str, Callable[[deltasql.Table], object]] = {
    "append": lambda t: t.append(ROWS, commit_metadata=TOLD),
    "overwrite": lambda t: t.overwrite(ROWS, commit_metadata=TOLD),
    "delete": lambda t: t.delete("id = 1", commit_metadata=TOLD),
    "update": lambda t: t.update("id = 1", {"n": "0"}, commit_metadata=TOLD),
    "merge": lambda t: t.merge(ROWS, "target.id = source.id", commit_metadata=TOLD)
    .when_matched_delete()
    .execute(),
    "optimize": lambda t: (t.append(ROWS), t.optimize(commit_metadata=TOLD)),
    "z-order": lambda t: t.optimize(zorder_by=["id"], commit_metadata=TOLD),
    "restore": lambda t: (t.append(ROWS), t.restore(version=0, commit_metadata=TOLD)),
    "add_column": lambda t: t.add_column("x", "int", commit_metadata=TOLD),
    "add_columns": lambda t: t.add_columns("x int", commit_metadata=TOLD),
    "rename_column": lambda t: t.rename_column(
        "n", "m", enable_column_mapping=True, commit_metadata=TOLD
    ),
    "drop_column": lambda t: t.drop_column("n", enable_column_mapping=True, commit_metadata=TOLD),
    "reorder_columns": lambda t: t.reorder_columns(["n"], commit_metadata=TOLD),
    "set_nullable": lambda t: t.set_nullable("k", commit_metadata=TOLD),
    "set_comment": lambda t: t.set_comment("c", "n", commit_metadata=TOLD),
    "set_comment of the table": lambda t: t.set_comment("c", commit_metadata=TOLD),
    "widen_type": lambda t: t.widen_type(
        "k", "long", enable_type_widening=True, commit_metadata=TOLD
    ),
    "set_properties": lambda t: t.set_properties({"a": "b"}, commit_metadata=TOLD),
    "unset_properties": lambda t: (
        t.set_properties({"a": "b"}), t.unset_properties(["a"], commit_metadata=TOLD)
    ),
    "add_constraint": lambda t: t.add_constraint("c", "id > 0", commit_metadata=TOLD),
    "drop_constraint": lambda t: (
        t.add_constraint("c", "id > 0"), t.drop_constraint("c", commit_metadata=TOLD)
    ),
    "enable_feature": lambda t: t.enable_feature("deletionVectors", commit_metadata=TOLD),
}  # fmt: skip


@pytest.mark.parametrize("verb", COMMITS)
def test_every_commit_says_what_it_was_told(lake, verb):
    schema = pa.schema([*ROWS.schema, pa.field("k", pa.int32(), nullable=False)])
    table = lake.create_table(f"told{next(NUMBERS)}", schema)
    table.append(ROWS.append_column(schema.field("k"), pa.array([1, 2, 3], pa.int32())))
    # The others may write nulls into k only if it allows them.
    if verb != "set_nullable":
        table.set_nullable("k")
    COMMITS[verb](table)
    (change,) = table.changes(table.version)
    info = next(item for item in change.actions if isinstance(item, deltasql.CommitInfo))
    assert info.user_name == table.history(1)[0].committer == "Jane"
    assert {key: info.extra[key] for key in ("userId", "run")} == {
        "userId": "j", "run": TOLD["run"]
    }  # fmt: skip
    assert lake.check(table.name).ok


def test_a_transaction_tells_every_table(lake):
    tables = [lake.create_table(f"told{next(NUMBERS)}", data=ROWS) for _ in range(2)]
    with lake.transaction(commit_metadata=TOLD) as tx:
        tx.table(tables[0].name).delete("id = 1")
        tx.table(tables[0].name).update("id = 2", {"n": "0"})
        tx.table(tables[1].name).append(ROWS)
    for table in tables:
        (change,) = table.changes(1)
        info = next(item for item in change.actions if isinstance(item, deltasql.CommitInfo))
        assert info.user_name == table.history(1)[0].committer == "Jane"
        assert info.extra["run"] == TOLD["run"]
        assert table is tables[1] or info.extra["operationMetrics"]["numDeletedRows"] == "1"
    with pytest.raises(ValidationError, match="can't have 'operation'"):
        lake.transaction(commit_metadata={"operation": "x"})


def test_who_commits_is_a_text(lake):
    table = lake.create_table(f"told{next(NUMBERS)}", ROWS.schema)
    with pytest.raises(ValidationError, match="userName can't be 7"):
        table.append(ROWS, commit_metadata={"userName": 7})
