"""Stock Delta before and after: exported tables read the same, and a table goes there and back."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from tests.conformance.tables import GOOD, ROOT, TABLES, needed
from tests.parts.spark import Spark
from tests.readers.engines import DeltaRs, DuckDb, as_lines, lines
from tests.sizes import FULL

pytestmark = pytest.mark.timeout(600)


def newest(name: str) -> dict[str, Any]:
    versions = TABLES[name]["versions"]
    found: dict[str, Any] = versions[max(versions, key=int)]
    return found


# Those whose data is there, and that Spark could read where they were.
READABLE = [
    name
    for name in GOOD
    if not TABLES[name]["log_only"]
    and newest(name).get("rows") is not None
    and (newest(name).get("spark") or {}).get("rows") == newest(name)["rows"]
]


@needed
@pytest.mark.parametrize("name", READABLE)
def test_an_exported_table_reads_the_same(
    name: str, tmp_path: Path, lake: deltasql.Lake, spark: Spark, duck: DuckDb
) -> None:
    """Every second one is copied with its data, the others refer to it where it is."""
    root = tmp_path / "from"
    shutil.copytree(ROOT / "tables" / name, root, copy_function=shutil.copy2)
    table = lake.adopt(str(root), name=f"c{READABLE.index(name)}")
    place = tmp_path / "to"
    # DuckDB, which counts where delta-rs can't, reads no files of other folders.
    copies = READABLE.index(name) % 2 == 0 or not _delta_rs_reads(root)
    report = table.mirror.export(str(place), copy_data=copies)
    assert report.version == table.version
    if copies:
        shutil.rmtree(root)
    wanted = newest(name)["rows"]
    assert spark.count(place) == wanted
    assert _kernel_count(name, place, duck) == wanted


def _delta_rs_reads(root: Path) -> bool:
    try:
        DeltaRs().rows(root, None)
    except Exception:  # noqa: BLE001 - it raises whatever its layers raise
        return False
    return True


def _kernel_count(name: str, place: Path, duck: DuckDb) -> int:
    """delta-rs, or DuckDB where delta-rs can't: the two share a kernel."""
    try:
        return DeltaRs().rows(place, None).num_rows
    except Exception:  # noqa: BLE001 - it raises whatever its layers raise
        return duck.rows(place, None).num_rows


# --- there and back ----------------------------------------------------------------------


class Reference:
    """What the table should hold, by version."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rows: dict[int, str] = {}
        self.history: dict[int, dict[int, str]] = {}
        self._next = 0

    def fresh(self, count: int) -> dict[int, str]:
        made = {self._next + number: f"v{self._next + number}" for number in range(count)}
        self._next += count
        return made

    def note(self, version: int) -> None:
        """The rows as they are now belong to every version since the last note."""
        first = max(self.history, default=-1) + 1
        for number in range(first, version + 1):
            self.history[number] = dict(self.rows)


def arrow(rows: dict[int, str]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(list(rows), pa.int64()),
            "v": pa.array(list(rows.values()), pa.string()),
        }
    )


def stock_operation(dice: random.Random, reference: Reference, spark: Spark) -> None:
    """One operation of stock Delta, and the same on the reference."""
    root, rows = reference.root, reference.rows
    bound = dice.choice([*rows, 0])
    by_spark = dice.random() < 0.3
    place = f"delta.`{root}`"
    match dice.choice(["append", "append", "delete", "update", "rewrite"]):
        case "append":
            made = reference.fresh(dice.randrange(1, 4))
            if by_spark:
                values = ", ".join(f"({key}, '{value}')" for key, value in made.items())
                spark.sql(f"INSERT INTO {place} VALUES {values}")
            else:
                write_deltalake(root, arrow(made), mode="append")
            rows.update(made)
        case "delete":
            where = f"id = {bound}"
            if by_spark:
                spark.sql(f"DELETE FROM {place} WHERE {where}")
            else:
                DeltaTable(root).delete(where)
            rows.pop(bound, None)
        case "update":
            if by_spark:
                spark.sql(f"UPDATE {place} SET v = 'new' WHERE id = {bound}")
            else:
                DeltaTable(root).update(new_values={"v": "new"}, predicate=f"id = {bound}")
            if bound in rows:
                rows[bound] = "new"
        case "rewrite":
            if by_spark:
                spark.sql(f"OPTIMIZE {place}")
            else:
                DeltaTable(root).optimize.compact()
    reference.note(DeltaTable(root).version())


def our_operation(dice: random.Random, reference: Reference, table: deltasql.Table) -> None:
    if dice.random() < 0.6:
        made = reference.fresh(2)
        reference.rows.update(made)
        reference.note(table.append(arrow(made)))
    else:
        bound = dice.choice([*reference.rows, 0])
        reference.rows.pop(bound, None)
        reference.note(table.overwrite(arrow({}), where=f"id = {bound}"))


def must_equal(table: deltasql.Table, reference: Reference) -> None:
    for version, rows in reference.history.items():
        found = table.snapshot(version=version).scan().to_arrow()
        assert dict(zip(*found.to_pydict().values(), strict=True)) == rows, version


def test_there_and_back_again(tmp_path: Path, lake: deltasql.Lake, spark: Spark) -> None:
    dice = random.Random(7)
    reference = Reference(tmp_path / "table")
    first = reference.fresh(3)
    reference.rows.update(first)
    write_deltalake(reference.root, arrow(first))
    reference.note(0)
    _many(50 if FULL else 20, lambda: stock_operation(dice, reference, spark))
    table = lake.adopt(str(reference.root), name="back")
    reference.note(table.version)
    must_equal(table, reference)
    _many(10, lambda: our_operation(dice, reference, table))
    reference.note(table.release())
    _many(10, lambda: stock_operation(dice, reference, spark))
    again = lake.adopt(str(reference.root), name="back")
    reference.note(again.version)
    must_equal(again, reference)
    assert as_lines([key, value] for key, value in reference.rows.items()) == as_lines(
        spark.read(reference.root)["rows"]
    )
    assert lines(again.scan().to_arrow(), ["id", "v"]) == lines(
        DeltaRs().rows(reference.root, None), ["id", "v"]
    )
    assert again.mirror.validate().ok


def _many(count: int, operation: Callable[[], None]) -> None:
    for _ in range(count):
        operation()
