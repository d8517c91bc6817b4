"""The log checked against itself, as users see it: `lake.check` and `lake.rebuild`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from deltasql.errors import DatabaseError, DeltaSqlError, StoreTimeoutError, TableNotFoundError
from deltasql.integrity.checking import check
from deltasql.integrity.findings import CheckProgress, CheckReport, Finding, Kind, TableCheck
from deltasql.integrity.rebuilding import RebuildReport, rebuild
from deltasql.lake.upkeep.every_table import still_there
from deltasql.mirror.engine import Target

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table

__all__ = ["CheckProgress", "CheckReport", "Finding", "LakeChecks", "RebuildReport", "TableCheck"]

Progress = Callable[[CheckProgress], None]
_NO_HEAD = "the table has no head, or its head has no metadata"


class LakeChecks:
    """What a lake can check about its own log."""

    __slots__ = ()

    def check(
        self, table: str | None = None, *, full: bool = False, progress: Progress | None = None
    ) -> CheckReport:
        """Replay a table's stored commits, by default every table's, and compare with the rest.

        The rest is the rows of live and dead files, transactions, domains, metadata, heads, and the
        mirror's checkpoints. It begins where an earlier check ended, if the rows up to there are
        unchanged since; with `full`, at the very beginning. Nothing is changed. Of several tables,
        one that can't be checked, such as one whose bucket can't be reached, is a finding.
        """
        lake = cast("Lake", self)
        tables = lake.tables() if table is None else [lake.table(table)]
        found: dict[str, TableCheck] = {}
        for item in tables:
            try:
                found[item.name] = check(
                    lake.store, item.objects, _target(item), full=full, progress=progress
                )
            except TableNotFoundError:
                # Either it was dropped in the meantime, or it has lost its head.
                if still_there(lake, item):
                    found[item.name] = _failed(item.name, Kind.HEAD, _NO_HEAD)
            except (DatabaseError, StoreTimeoutError):
                raise
            except DeltaSqlError as error:
                if table is not None:
                    raise
                found[item.name] = _failed(
                    item.name, Kind.UNCHECKED, f"{error.problem}: {error.cause}"
                )
        return CheckReport(found)

    def rebuild(self, name: str, *, progress: Progress | None = None) -> RebuildReport:
        """Rebuild the rows of a table from its stored commits, in one transaction.

        Commits to the table wait meanwhile. Commits that are themselves lost can't be rebuilt: then
        nothing is changed.
        """
        lake = cast("Lake", self)
        table = lake.table(name)
        done = rebuild(lake.store, table.objects, _target(table), progress=progress)
        lake.states.refresh(table.table_id)
        return done


def _failed(name: str, kind: Kind, problem: str) -> TableCheck:
    report = TableCheck(table=name, version=-1, since=-1)
    report.found(kind, problem)
    return report


def _target(table: Table) -> Target:
    """The table as the mirror knows it, even if its metadata can't be read."""
    return Target(table.table_id, table.name, table.location)
