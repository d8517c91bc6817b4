"""Writers that do random operations on the same tables at once, and write down what they asked."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import deltasql
from deltasql.errors import CommitError, CommitStateUnknownError, StoreError
from tests.histories.model import (
    Append,
    CountInto,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Restore,
    Row,
    Several,
    Step,
    Update,
    Where,
)

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("p", pa.string())])
PARTITIONS = ("a", "b", None)
# Merges meet among these ids; those of appends are above.
SHARED = 12
TAG = "asked"
_ON = "target.id = source.id"


def table_of(rows: tuple[Row, ...] | list[Row]) -> pa.Table:
    return pa.table(
        {name: [getattr(row, name) for row in rows] for name in Row._fields}, schema=SCHEMA
    )


def rows_in(found: pa.Table) -> Counter[Row]:
    columns = (found.column(name).to_pylist() for name in Row._fields)
    return Counter(map(Row._make, zip(*columns, strict=True)))


@dataclass
class Told:
    """One operation: what was asked of which tables, and what the caller learned."""

    name: str
    asked: dict[str, Operation]
    outcome: str = "?"
    error: str = ""
    versions: dict[str, int] = field(default_factory=dict)


def some_where(rng: random.Random) -> Where:
    """Any condition."""
    low, key, p = rng.randrange(SHARED), rng.randrange(4), rng.choice(("a", "b"))
    return rng.choice(
        (
            Where("partition", (p,)),
            Where("no partition"),
            Where("range", (low, low + rng.randrange(4))),
            Where("key", (key,)),
            Where("no key"),
            Where("engine", (rng.randrange(3),)),
            Where("both", (key, p)),
            Where("either", (key, p)),
            Where("not", (key,)),
            Where("some", tuple(sorted(rng.sample(range(SHARED), 3)))),
        )
    )


class Writer:
    """One client with a connection of its own."""

    def __init__(
        self, lake: deltasql.Lake, number: int, seed: int, names: tuple[str, ...], *, kinds: str
    ) -> None:
        self.lake, self.names, self.kinds = lake, names, kinds
        self.rng = random.Random(f"{seed}:{number}")
        self.told: list[Told] = []
        self.seen: list[tuple[str, int, Counter[Row]]] = []
        self._number = number
        self._fresh = itertools.count((number + 1) * 1_000_000)
        self._count = itertools.count()
        self._app_version = 0
        self._stale = {name: lake.table(name) for name in names}

    # --- what to do ---------------------------------------------------------------------

    def _row(self, *, shared: bool) -> Row:
        rng = self.rng
        key = rng.randrange(SHARED) if shared else next(self._fresh)
        return Row(key, rng.choice((None, 0, 1, 2, 3)), rng.randrange(100), rng.choice(PARTITIONS))

    def _rows(self, most: int = 3) -> tuple[Row, ...]:
        return tuple(self._row(shared=False) for _ in range(self.rng.randrange(1, most + 1)))

    def _merge(self) -> Merge:
        ids = self.rng.sample(range(SHARED), self.rng.randrange(1, 4))
        source = tuple(self._row(shared=True)._replace(id=key) for key in ids)
        matched = self.rng.choice(("update", "update", "delete", ""))
        inserts = self.rng.random() < 0.8 or matched == ""
        others = self.rng.choice(("a", "b")) if self.rng.random() < 0.15 else None
        return Merge(source, matched, inserts, others)

    def _fitting(self, where: Where) -> tuple[Row, ...]:
        found = [self._row(shared=False) for _ in range(30)]
        return tuple(row for row in found if where.holds(row))[:2]

    def _step(self) -> Step:
        rng, where = self.rng, some_where(self.rng)
        match rng.randrange(6):
            case 0:
                return Append(self._rows())
            case 1:
                return Delete(where)
            case 2:
                return Update(where, rng.randrange(1, 5), rng.choice((None, None, "a", "b")))
            case 3:
                return self._merge()
            case 4:
                return Overwrite(where, self._fitting(where))
        return CountInto(where, self._row(shared=False))

    def step(self) -> None:
        """Do one random operation, or look at a version."""
        choice = self.rng.choice(self.kinds)
        name = self.rng.choice(self.names)
        if self.rng.random() < 0.3:
            self._quietly(lambda: self._stale.update({name: self.lake.table(name)}))
        if choice == "r":
            self._quietly(lambda: self._read(name))
        elif choice == "t":
            self._transaction()
        else:
            self._single(name, choice)

    def _read(self, name: str) -> None:
        table = self._stale[name]
        version = self.rng.randrange(table.version + 1)
        self.seen.append((name, version, rows_in(table.snapshot(version).scan().to_arrow())))

    def _new(self, asked: dict[str, Operation]) -> Told:
        told = Told(f"{self._number}.{next(self._count)}", asked)
        self.told.append(told)
        self.note(told)
        return told

    def note(self, told: Told) -> None:
        """Called before an operation begins and when its outcome is known."""

    def _run(self, told: Told, call: Any) -> None:
        try:
            told.versions = call()
            told.outcome = "done"
        except CommitStateUnknownError as error:
            told.outcome, told.error = "unknown", str(error)
        except CommitError as error:
            told.outcome, told.error = "refused", repr(error)
        except StoreError as error:
            # Nothing was done, it says.
            told.outcome, told.error = "refused", repr(error)
        self.note(told)

    # --- one table ------------------------------------------------------------------------

    def _single(self, name: str, choice: str) -> None:
        table, rng, where = self._stale[name], self.rng, some_where(self.rng)
        match choice:
            case "A":
                self._twice(name, table)
                return
            case "z":
                how: dict[str, Any] = rng.choice(({}, {"zorder_by": ["id"]}, {"target_size": 2000}))
                self._quietly(lambda: table.optimize(**how))
                return
            case "s":
                self._quietly(lambda: self._alter(table))
                return
            case "a":
                op: Operation = Append(self._rows())
            case "d":
                op = Delete(where)
            case "u":
                op = Update(where, rng.randrange(1, 5), rng.choice((None, None, "a", "b")))
            case "m":
                op = self._merge()
            case "o":
                op = Overwrite(where, self._fitting(where))
            case "O":
                op = Overwrite(None, self._rows())
            case _:
                op = Restore(rng.randrange(max(0, table.version - 5), table.version + 1))
        told, retries = self._new({name: op}), rng.choice((0, 2))
        self._run(told, lambda: {name: _done(table, op, retries, commit_metadata=self._tag(told))})

    def _quietly(self, call: Any) -> None:
        try:
            call()
        except (CommitError, StoreError):
            return

    def _alter(self, table: Any) -> None:
        match self.rng.randrange(4):
            case 0:
                table.add_column(f"c{self._number}_{next(self._count)}", "int")
            case 1:
                table.set_comment(f"comment {next(self._count)}")
            case 2:
                on = self.rng.choice(("true", "false"))
                table.set_properties({"delta.enableDeletionVectors": on})
            case 3:
                table.set_comment("on k", "k")

    def _twice(self, name: str, table: Any) -> None:
        """An append that is asked for again counts once."""
        op = Append(self._rows())
        self._app_version += 1
        app = {"app_id": f"app{self._number}", "app_version": self._app_version}
        told = self._new({name: op})
        for again in range(self.rng.randrange(1, 3)):
            if again and told.outcome == "refused":
                told = self._new({name: op})
            how = {**app, "commit_metadata": self._tag(told)}
            self._run(told, lambda how=how: {name: table.append(table_of(op.rows), **how)})

    # --- transactions -----------------------------------------------------------------------

    def _transaction(self) -> None:
        rng = self.rng
        names = rng.sample(self.names, rng.randrange(1, len(self.names) + 1))
        asked: dict[str, Operation] = {
            name: Several(tuple(self._step() for _ in range(rng.randrange(1, 4)))) for name in names
        }
        told = self._new(asked)

        def run() -> dict[str, int]:
            with self.lake.transaction(commit_metadata=self._tag(told)) as tx:
                for name, op in asked.items():
                    assert isinstance(op, Several)
                    for step in op.steps:
                        _do(tx.table(name), step)
            return dict(tx.versions)

        self._run(told, run)

    def _tag(self, told: Told) -> dict[str, str]:
        return {TAG: told.name}


def _done(table: Any, op: Operation, retries: int, **how: Any) -> int:
    """Do it; the version that it became."""
    match op:
        case Append(rows):
            return table.append(table_of(rows), **how)
        case Delete(where):
            return table.delete(None if where is None else where.text, retries=retries, **how)
        case Update(where):
            return table.update(where.text, _set(op), retries=retries, **how)
        case Merge(source):
            how["retries"] = retries
            return _merging(table.merge(table_of(source), _ON, **how), op).execute()
        case Overwrite(where, rows):
            text = None if where is None else where.text
            how["max_commit_retries"] = retries
            return table.overwrite(table_of(rows), where=text, **how)
        case Restore(version):
            return table.restore(version=version, **how).version
    raise AssertionError(op)


def _set(op: Update) -> dict[str, str]:
    return {"v": f"v + {op.more}"} | ({} if op.p is None else {"p": f"'{op.p}'"})


def _merging(builder: Any, op: Merge) -> Any:
    if op.matched == "update":
        builder = builder.when_matched_update({"v": "source.v", "p": "source.p"})
    elif op.matched == "delete":
        builder = builder.when_matched_delete()
    if op.inserts:
        builder = builder.when_not_matched_insert({name: f"source.{name}" for name in Row._fields})
    if op.others is not None:
        builder = builder.when_not_matched_by_source_delete(f"target.p = '{op.others}'")
    return builder


def _do(table: Any, step: Step) -> None:
    match step:
        case Append(rows):
            table.append(table_of(rows))
        case Delete(where):
            table.delete(None if where is None else where.text)
        case Update(where):
            table.update(where.text, _set(step))
        case Merge(source):
            _merging(table.merge(table_of(source), _ON), step).execute()
        case Overwrite(where, rows):
            table.overwrite(table_of(rows), where=None if where is None else where.text)
        case CountInto(where, row):
            found = table.scan(where.text).to_arrow().num_rows
            table.append(table_of([row._replace(v=found)]))
