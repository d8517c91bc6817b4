"""The verbs of the Python API that write, each from the same two tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import deltalake
import pyarrow as pa

import deltasql
from deltasql.lake import new_table, writing
from tests.faults.matrix.outcomes import State

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
FIRST = (1, 2)
NAMES = ("a", "b", "new", "old")
# Those of the second table: its rows are marked, not rewritten, and all changes are told.
RECORDED = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def rows(*ids: int, p: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=SCHEMA)


@dataclass(frozen=True)
class Place:
    """A namespace of a lake that belongs to one case alone."""

    lake: deltasql.Lake
    space: str

    def name(self, short: str) -> str:
        return f"{self.space}.{short}"

    @property
    def names(self) -> list[str]:
        return [self.name(short) for short in NAMES]

    def table(self, short: str) -> deltasql.Table:
        return self.lake.table(self.name(short))

    @property
    def plain_location(self) -> str:
        """Where a table of delta-rs' own lies."""
        return f"{self.lake.location}/plain-{self.space}"

    def prepare(self) -> None:
        for short, properties in {"a": {}, "b": RECORDED}.items():
            table = self.lake.create_table(
                self.name(short), SCHEMA, partition_by=["p"], properties=properties
            )
            table.append(rows(*FIRST))
        folder = Path(unquote(urlsplit(self.plain_location).path))
        folder.mkdir(parents=True)
        deltalake.write_deltalake(str(folder), rows(*FIRST))

    def state(self, *fenced: str, **ids: Sequence[int]) -> State:
        """What is expected: the rows of tables, and of which the fence is not what it was."""
        expected: dict[str, Any] = dict.fromkeys(self.names)
        for short, found in {"a": FIRST, "b": FIRST, **ids}.items():
            expected[self.name(short)] = (sorted(found), short not in fenced)
        return expected


@dataclass(frozen=True)
class Verb:
    """A call, and what the tables hold when it is done."""

    run: Callable[[Place], Any]
    after: Callable[[Place], State]


def _transaction(place: Place) -> None:
    with place.lake.transaction() as tx:
        tx.table(place.name("a")).append(rows(3))
        tx.table(place.name("b")).overwrite(rows(4))


def _merge(table: Any) -> Any:
    """A row that is updated, one that is new."""
    builder = table.merge(rows(2, 3, p="y"), "target.id = source.id")
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


def _changes_in_a_transaction(place: Place) -> None:
    with place.lake.transaction() as tx:
        _merge(tx.table(place.name("a")))
        tx.table(place.name("a")).delete("id = 1")
        tx.table(place.name("b")).update("id % 2 = 0", {"id": "id + 5"})


def _append_by_an_appender(place: Place) -> None:
    with place.table("a").appender() as appender:
        appender.append(rows(3))


def _with_statement(place: Place) -> None:
    with place.lake.transaction() as tx:
        tx.table(place.name("a")).append(rows(3))
        tx.sql_execute("SELECT 1")


def _commit(place: Place) -> None:
    """The low-level writer, with a file of another commit's rows put in once more."""
    table = place.table("a")
    (add,) = table.snapshot().adds()
    key = unquote(add.path)
    again = f"{key.rpartition('/')[0]}/again.parquet"
    table.objects.put_if_absent(again, table.objects.read(key))
    action = deltasql.AddFile(
        path=again,
        partition_values=add.partition_values,
        size=add.size,
        modification_time=add.modification_time,
        data_change=True,
        stats=add.stats,
    )
    table.commit([action])


def _create_with_rows(place: Place) -> None:
    name = place.name("new")
    location = place.lake.place(name)
    actions = new_table.version_zero(SCHEMA, (), None)
    files = writing.write_rows(place.lake.objects(location), actions[1], rows(3))
    place.lake.create_with(
        name,
        location,
        [*actions, *files],
        operation="CREATE TABLE AS SELECT",
        operation_params={},
        files=files,
    )


VERBS = {
    "append": Verb(lambda p: p.table("a").append(rows(3)), lambda p: p.state(a=(1, 2, 3))),
    "append a new column": Verb(
        lambda p: p.table("a").append(
            rows(3).append_column("n", pa.array([1])), schema_mode="merge"
        ),
        lambda p: p.state(a=(1, 2, 3)),
    ),
    "append once": Verb(
        lambda p: p.table("a").append(rows(3), app_id="app", app_version=1),
        lambda p: p.state(a=(1, 2, 3)),
    ),
    "append by an appender": Verb(_append_by_an_appender, lambda p: p.state(a=(1, 2, 3))),
    "write to a new table": Verb(
        lambda p: p.lake.write(rows(3), p.name("new"), mode="error"), lambda p: p.state(new=(3,))
    ),
    "create or replace": Verb(
        lambda p: p.lake.create_or_replace_table(p.name("a"), data=rows(3)),
        lambda p: p.state(a=(3,)),
    ),
    "overwrite": Verb(lambda p: p.table("a").overwrite(rows(3)), lambda p: p.state(a=(3,))),
    "overwrite where": Verb(
        lambda p: p.table("a").overwrite(rows(3), where="id >= 2"), lambda p: p.state(a=(1, 3))
    ),
    "delete": Verb(lambda p: p.table("a").delete("id = 2"), lambda p: p.state(a=(1,))),
    "update": Verb(
        lambda p: p.table("a").update("id % 2 = 0", {"id": "id + 5"}), lambda p: p.state(a=(1, 7))
    ),
    "merge": Verb(lambda p: _merge(p.table("a")), lambda p: p.state(a=(1, 2, 3))),
    "delete, recorded": Verb(lambda p: p.table("b").delete("id = 2"), lambda p: p.state(b=(1,))),
    "update, recorded": Verb(
        lambda p: p.table("b").update("id % 2 = 0", {"id": "id + 5"}), lambda p: p.state(b=(1, 7))
    ),
    "merge, recorded": Verb(lambda p: _merge(p.table("b")), lambda p: p.state(b=(1, 2, 3))),
    "changes in a transaction": Verb(
        _changes_in_a_transaction, lambda p: p.state(a=(2, 3), b=(1, 7))
    ),
    "commit": Verb(_commit, lambda p: p.state(a=(1, 2, 1, 2))),
    "create": Verb(lambda p: p.lake.create_table(p.name("new"), SCHEMA), lambda p: p.state(new=())),
    "create with rows": Verb(_create_with_rows, lambda p: p.state(new=(3,))),
    "transaction": Verb(_transaction, lambda p: p.state(a=(1, 2, 3), b=(4,))),
    "transaction with a statement": Verb(_with_statement, lambda p: p.state(a=(1, 2, 3))),
    "adopt": Verb(
        lambda p: p.lake.adopt(p.plain_location, p.name("old")), lambda p: p.state(old=FIRST)
    ),
    "release": Verb(lambda p: p.table("a").release(), lambda p: p.state("a")),
}
