"""One task for every table of a lake, in which no table holds up the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from deltasql.errors import DeltaSqlError, TableNotFoundError

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table

Result = TypeVar("Result")


def on_every_table(lake: Lake, work: Callable[[Table], Result]) -> list[Result]:
    """The results of the work, by name, for every table that deltasql may write.

    Tables that are dropped meanwhile are left out. A failure is raised after the others are done.
    """
    found: list[Result] = []
    failed: list[DeltaSqlError] = []
    for table in lake.tables():
        try:
            if table.read_only is None:
                found.append(work(table))
        except TableNotFoundError as error:
            if still_there(lake, table):
                failed.append(error)
        except DeltaSqlError as error:
            failed.append(error)
    if failed:
        for other in failed[1:]:
            failed[0].add_note(f"also: {other}")
        raise failed[0]
    return found


def still_there(lake: Lake, table: Table) -> bool:
    """Whether the lake has the table now, damaged or not."""
    return any(item.table_id == table.table_id for item in lake.tables())
