"""Parquet footers, damaged: by flipped bits, and by what Thrift allows and Parquet does not.

Run as a program it reads such files, one after the other, and says which it is at: a file that ends
the process ends only this one.
"""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

import deltasql

ROWS = 60
# Kinds of Thrift's compact form.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS = (4, 5, 6)
_LIMITS = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_MOST_MEMORY = 6 << 30


@dataclass(slots=True)
class _Value:
    """A value of Thrift. `inner` are the fields of a struct with their numbers, or a list's items,
    numbered too; `of` is the kind of these."""

    kind: int
    plain: Any = None
    inner: list[tuple[int, _Value]] = field(default_factory=list)
    of: int = 0

    def within(self) -> list[_Value]:
        """Itself and whatever is in it."""
        return [self, *(one for _, item in self.inner for one in item.within())]

    def written(self) -> bytes:
        if self.kind in (_TRUE, _FALSE):
            return b""
        if self.kind in _NUMBERS:
            return _number(self.plain << 1 if self.plain >= 0 else -self.plain * 2 - 1)
        if self.kind == _BINARY:
            return _number(len(self.plain)) + self.plain
        items = [item.written() for _, item in self.inner]
        if self.kind in (_LIST, _SET):
            return bytes([0xF0 | self.of]) + _number(len(items)) + b"".join(items)
        if self.kind == _STRUCT:
            heads = [bytes([item.kind]) + _number(number << 1) for number, item in self.inner]
            return b"".join(map(bytes.__add__, heads, items)) + b"\0"
        return bytes(self.plain)

    def spoil(self, chance: random.Random) -> None:
        """Make it another value of its kind, or leave a part of it out."""
        if self.kind in (_TRUE, _FALSE):
            self.kind = _FALSE if self.kind == _TRUE else _TRUE
        elif self.kind in _NUMBERS:
            self.plain = chance.choice((*_LIMITS, self.plain + 1, self.plain - 1))
        elif self.kind == _BINARY:
            old = self.plain
            self.plain = chance.choice((b"", old[:-1], old + b"\xff", old * 9, bytes(8)))
        elif self.kind in (_LIST, _SET):
            self.inner = chance.choice(([], self.inner[1:], self.inner[:-1], self.inner * 2))
        elif self.inner:
            del self.inner[chance.randrange(len(self.inner))]


class _Reading:
    """A footer, taken apart."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self, kind: int) -> _Value:
        if kind in (_TRUE, _FALSE):
            return _Value(kind)
        if kind in _NUMBERS:
            return _Value(kind, self._signed())
        if kind == _BINARY:
            return _Value(kind, self._bytes(self._number()))
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._number()
            return _Value(kind, None, [(0, self.value(head & 15)) for _ in range(count)], head & 15)
        if kind == _STRUCT:
            return _Value(kind, None, self._fields())
        return _Value(kind, self._bytes(8 if kind == _DOUBLE else 1))

    def _fields(self) -> list[tuple[int, _Value]]:
        fields: list[tuple[int, _Value]] = []
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields.append((number, self.value(head & 15)))
        return fields

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def _number(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _signed(self) -> int:
        found = self._number()
        return (found >> 1) ^ -(found & 1)


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _changed(footer: bytes, chance: random.Random) -> bytes:
    """A footer that Thrift can read and that lies in one to three places."""
    whole = _Reading(footer).value(_STRUCT)
    for _ in range(chance.choice((1, 1, 2, 3))):
        chance.choice(whole.within()).spoil(chance)
    return whole.written()


def _flipped(footer: bytes, chance: random.Random) -> bytes:
    found = bytearray(footer)
    for _ in range(chance.choice((1, 1, 2, 8))):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A Parquet file with another footer."""
    length = int.from_bytes(content[-8:-4], "little")
    change = chance.choice((_changed, _flipped))
    footer = change(content[-8 - length : -8], chance)
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


# --- what is read ---------------------------------------------------------------------------


def rows() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "day": pa.array([date(2026, 1, 1 + n % 28) for n in range(ROWS)]),
            "name": [f"n{n:03}" for n in range(ROWS)],
            "price": pa.array([Decimal(n) for n in range(ROWS)], pa.decimal128(9, 2)),
            "inner": pa.array([{"a": n, "b": ["x"] * (n % 3)} for n in range(ROWS)]),
        }
    )


def _scans(root: Path) -> tuple[Path, Callable[[], object]]:
    """A file of several row groups in a table, and a scan that skips some."""
    lake = deltasql.connect(f"sqlite:///{root}/lake.db", settings={"mirror.mode": "off"})
    table = lake.create_table("t", rows().schema, location=str(root / "t"))
    table.append(rows())
    (file,) = (root / "t").glob("*.parquet")
    pq.write_table(rows(), file, row_group_size=7)
    conditions = ("id = 33", "name > 'n050' AND day >= DATE '2026-01-03'")

    def read() -> None:
        for where in conditions:
            table.scan(where=where).to_arrow()
        table.scan(columns=["name", "inner"]).to_arrow()

    return file, read


def _adopts(root: Path) -> tuple[Path, Callable[[], object]]:
    """A checkpoint that an adoption begins with."""
    properties = {"delta.checkpoint.writeStatsAsStruct": "true"}
    content = rows().select(["id", "day", "name"])
    for _ in range(4):
        write_deltalake(str(root / "t"), content, mode="append", configuration=properties)
    DeltaTable(str(root / "t")).create_checkpoint()
    log = root / "t" / "_delta_log"
    for commit in sorted(log.glob("*.json"))[:-1]:
        commit.unlink()
    (file,) = log.glob("*.checkpoint.parquet")
    lake = deltasql.connect(f"sqlite:///{root}/lake.db", settings={"mirror.mode": "off"})
    return file, lambda: lake.adopt(str(root / "t"), "t", dry_run=True)


def main(kind: str, root: Path, seed: int, count: int) -> None:
    file, read = {"scan": _scans, "adopt": _adopts}[kind](root)
    read()
    content = file.read_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcomes: dict[str, int] = {}
    for number in range(seed, seed + count):
        print("file", number, flush=True)
        file.write_bytes(damaged(content, random.Random(number)))
        try:
            read()
        except deltasql.DeltaSqlError as error:
            outcome = type(error).__name__
        else:
            outcome = "read"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    print(outcomes)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
