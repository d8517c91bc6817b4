"""What operations mean: the rows before a version, and those that must be there after it.

Each operation is a value that says what it does to a multiset of rows, so that a history can be
judged version by version: whatever ran at once, each version must be what its operation makes of
the one before it. Only blind appends that the operation did not see may stay as they were, unless
the table is Serializable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias


class Row(NamedTuple):
    """A row: `id` is unique among those of blind appends, not among those of merges."""

    id: int
    k: int | None
    v: int
    p: str | None


Rows: TypeAlias = "Counter[Row]"


@dataclass(frozen=True)
class Where:
    """A condition, of a kind that is judged in its own way: by partition, stats, rows, engine."""

    kind: str
    values: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        return _TEXTS[self.kind].format(*self.values)

    def holds(self, row: Row) -> bool:
        return _TESTS[self.kind](row, *self.values)


_TEXTS = {
    "partition": "p = '{}'",
    "no partition": "p IS NULL",
    "range": "id BETWEEN {} AND {}",
    "key": "k = {}",
    "no key": "k IS NULL",
    "engine": "id % 3 = {}",
    "both": "k < {} AND p = '{}'",
    "either": "k = {} OR p = '{}'",
    "some": "id IN ({}, {}, {})",
    "not": "NOT (k = {})",
}
_TESTS: dict[str, Callable[..., bool]] = {
    "partition": lambda row, p: row.p == p,
    "no partition": lambda row: row.p is None,
    "range": lambda row, low, high: low <= row.id <= high,
    "key": lambda row, key: row.k == key,
    "no key": lambda row: row.k is None,
    "engine": lambda row, left: row.id % 3 == left,
    "both": lambda row, key, p: row.k is not None and row.k < key and row.p == p,
    "either": lambda row, key, p: row.k == key or row.p == p,
    "some": lambda row, *ids: row.id in ids,
    "not": lambda row, key: row.k is not None and row.k != key,
}


@dataclass(frozen=True)
class Append:
    rows: tuple[Row, ...]

    def after(self, rows: Rows) -> Rows:
        return rows + Counter(self.rows)


@dataclass(frozen=True)
class Delete:
    where: Where | None

    def after(self, rows: Rows) -> Rows:
        holds = (lambda _: True) if self.where is None else self.where.holds
        return Counter({row: n for row, n in rows.items() if not holds(row)})


@dataclass(frozen=True)
class Overwrite:
    where: Where | None
    rows: tuple[Row, ...]

    def after(self, rows: Rows) -> Rows:
        return Delete(self.where).after(rows) + Counter(self.rows)


@dataclass(frozen=True)
class Update:
    """Adds to `v`, and perhaps moves the rows to another partition."""

    where: Where
    more: int
    p: str | None

    def new(self, row: Row) -> Row:
        return row._replace(v=row.v + self.more, p=row.p if self.p is None else self.p)

    def after(self, rows: Rows) -> Rows:
        found: Rows = Counter()
        for row, n in rows.items():
            found[self.new(row) if self.where.holds(row) else row] += n
        return found


@dataclass(frozen=True)
class Merge:
    """By `id`: rows that match get `v` and `p` of the source or go, others are inserted."""

    source: tuple[Row, ...]
    matched: str
    inserts: bool
    # Of the table's other rows, those in this partition go.
    others: str | None = None

    def after(self, rows: Rows) -> Rows:
        source = {row.id: row for row in self.source}
        found: Rows = Counter()
        for row, n in rows.items():
            new = source.get(row.id)
            if new is None:
                if self.others is None or row.p != self.others:
                    found[row] += n
            elif self.matched == "update":
                found[row._replace(v=new.v, p=new.p)] += n
            elif self.matched == "":
                found[row] += n
        known = {row.id for row in rows}
        for key, new in source.items():
            if self.inserts and key not in known:
                found[new] += 1
        return found


@dataclass(frozen=True)
class CountInto:
    """A row whose `v` is how many rows satisfied a condition."""

    where: Where
    row: Row

    def after(self, rows: Rows) -> Rows:
        found = sum(n for row, n in rows.items() if self.where.holds(row))
        return rows + Counter([self.row._replace(v=found)])


@dataclass(frozen=True)
class Several:
    """A transaction."""

    steps: tuple[Step, ...]

    def after(self, rows: Rows) -> Rows:
        for step in self.steps:
            rows = step.after(rows)
        return rows


@dataclass(frozen=True)
class Restore:
    """The rows of an older version; the judge knows them."""

    version: int


Step: TypeAlias = "Append | Delete | Overwrite | Update | Merge | CountInto"
Operation: TypeAlias = "Step | Several | Restore"
