"""The mirror as users see it: `lake.mirror` and `table.mirror`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from deltasql.adoption.exporting import ExportReport, export
from deltasql.errors import DeltaSqlError, TableNotFoundError
from deltasql.lake.arguments import checked
from deltasql.lake.locations import check
from deltasql.lake.upkeep.background import upkeep_beside
from deltasql.maintenance.presence import Presence
from deltasql.mirror.checkpoints.now import checkpoint_now
from deltasql.mirror.cleanup import CleanupReport, cleanup
from deltasql.mirror.released import is_released
from deltasql.mirror.repairing.repair import repair
from deltasql.mirror.repairing.report import RepairReport
from deltasql.mirror.validation.digests import Advance
from deltasql.mirror.validation.validate import ValidationReport, validate
from deltasql.mirror.validation.watching import DriftWatch
from deltasql.mirror.worker import Worker
from deltasql.places import place_of
from deltasql.showing.html import Listing
from deltasql.showing.report import Report
from deltasql.store.claims import taken
from deltasql.store.upkeep.interface import WORKER

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table
    from deltasql.store.interface import TableRecord
    from deltasql.store.mirroring.interface import Backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """How far a table's mirror has got.

    `mirrored_version` is the newest version whose commit file is in the object store, None before
    the first; the mirror is `lag_versions` and `lag_seconds` behind SQL. `gap_versions` are older:
    a checkpoint stands in for them until their commit files are written, too. The log of a released
    table goes on without SQL.
    """

    table: str
    version: int
    mirrored_version: int | None
    lag_versions: int
    lag_seconds: float
    pending_checkpoints: int
    is_paused: bool
    is_failed: bool
    error_message: str | None
    is_released: bool = False
    gap_versions: int = 0


class _StoppedError(Exception):
    """The process is ending: nothing is said about the mirrors."""


# Called after each table: how many are done, of how many, and what was found.
Progress: TypeAlias = Callable[[int, int, ValidationReport], None]


@dataclass(frozen=True, slots=True, repr=False)
class LakeValidationReport(Report):
    """What validation found, by the tables' names."""

    tables: Mapping[str, ValidationReport] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every mirror agrees with SQL."""
        return all(report.ok for report in self.tables.values())


@checked
class LakeMirror:
    """The mirror of every table of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def run(self, once: bool = False, stop: threading.Event | None = None) -> int:  # noqa: FBT001, FBT002
        """Be the worker until SIGTERM; `once` drains what is pending, including checkpoints.

        Returns how many versions and checkpoints `once` wrote.
        """
        lake = self._lake
        worker = Worker(
            lake.engine,
            lake.store,
            validate=self._validated,
            watch=DriftWatch(lake.engine, lake.store, lake.objects),
        )
        if once:
            return worker.drain()
        stopped = stop or threading.Event()
        with (
            Presence(lake.store, committer=lake.committer, kind=WORKER).working(),
            upkeep_beside(lake, stopped),
        ):
            worker.run(stopped)
        return 0

    def status(self) -> list[MirrorStatus]:
        """How far the mirror of each table has got."""
        store = self._lake.store
        now = store.clock_ms()
        # Tables that lack nothing need few details, and most tables are like that.
        behind = {item.table_id: item for item in store.open_backlog()}
        records, heads = store.tables(), store.heads()
        return Listing(
            _status(behind[record.table_id], now, is_released=is_released(record.read_only_reason))
            if record.table_id in behind
            else _whole(record, heads[record.table_id].version)
            for record in sorted(records, key=lambda record: record.table_id)
            if record.table_id in heads
        )

    def validate(self, progress: Progress | None = None) -> LakeValidationReport:
        """Compare the mirror of every table with SQL; failures to read are in the table's report.

        Released tables are left out: their logs go on without SQL.
        """
        return self._validate(progress, None)

    def _validated(self, is_stopped: Callable[[], bool]) -> list[ValidationReport]:
        def check(*_: object) -> None:
            if is_stopped():
                raise _StoppedError

        try:
            return [*self._validate(check, check).tables.values()]
        except _StoppedError:
            return []

    def _validate(self, progress: Progress | None, advance: Advance | None) -> LakeValidationReport:
        tables = [table for table in self._lake.tables() if not is_released(table.read_only)]
        reports = {}
        for number, table in enumerate(tables, start=1):
            try:
                report = table.mirror.validate(progress=advance)
            except TableNotFoundError:
                continue  # dropped since
            except DeltaSqlError as error:
                problem = f"{error.problem}: {error.cause}"
                report = ValidationReport(table=table.name, version=None, error=problem)
            reports[table.name] = report
            if progress is not None:
                progress(number, len(tables), report)
        return LakeValidationReport(reports)

    def repair(
        self, progress: Callable[[int, int, RepairReport], None] | None = None
    ) -> dict[str, RepairReport]:
        """Repair the mirror of every table that is ours to write, by name.

        Nothing is forced or taken back: see `Table.mirror` for that.
        """
        tables = [table for table in self._lake.tables() if table.read_only is None]
        reports = {}
        for number, table in enumerate(tables, start=1):
            try:
                report = table.mirror.repair()
            except TableNotFoundError:
                continue  # dropped since
            except DeltaSqlError as error:
                report = RepairReport(table=table.name, errors=[f"{error.problem}: {error.cause}"])
            reports[table.name] = report
            if progress is not None:
                progress(number, len(tables), report)
        return reports


@checked
class TableMirror:
    """The mirror of one table."""

    def __init__(self, lake: Lake, table: Table) -> None:
        self._lake = lake
        self._table = table

    def status(self) -> MirrorStatus:
        """How far the mirror has got."""
        now = self._lake.store.clock_ms()
        item = self._lake.store.backlog_of(self._table.table_id)
        if item is None:
            raise TableNotFoundError.named(self._table.name)
        return _status(item, now, is_released=is_released(self._table.read_only))

    def pause(self) -> None:
        """Stop mirroring the table; commits go on, and wait in SQL."""
        self._lake.store.set_mirror_paused(self._table.table_id, paused=True)

    def resume(self) -> None:
        """Mirror the table again, from where it stopped."""
        self._lake.store.set_mirror_paused(self._table.table_id, paused=False)

    def repair(
        self,
        version: int | None = None,
        force: bool = False,  # noqa: FBT001, FBT002 - the public name
        *,
        take_back: bool = False,
        progress: Advance | None = None,
    ) -> RepairReport:
        """Rewrite what was deleted or cut off: for one version, or wherever there is a gap.

        Objects that somebody else wrote are reported, and moved aside with `force`. Versions that
        SQL does not know, as after a restore of the database, are reported too; with `take_back`
        they become versions in SQL again.
        """
        lake, table = self._lake, self._table
        try:
            return repair(
                lake.engine,
                lake.store,
                table.objects,
                table.target,
                version=version,
                force=force,
                taking_back=lake.commits if take_back else None,
                progress=progress,
            )
        finally:
            lake.states.forget(table.table_id)

    def validate(
        self, version: int | None = None, *, progress: Advance | None = None
    ) -> ValidationReport:
        """Compare the mirror with SQL: every commit file's digest, and the snapshot that
        readers see, by default at the newest mirrored version.
        """
        lake, table = self._lake, self._table
        return validate(
            lake.store,
            table.objects,
            table.target,
            version=version,
            options=lake.reader_options,
            progress=progress,
        )

    def checkpoint(self) -> int:
        """Write the checkpoint of the newest mirrored version now; returns that version.

        Nobody has to: the worker writes checkpoints when they pay. It is for a log that somebody is
        about to read.
        """
        lake, table = self._lake, self._table
        return checkpoint_now(lake.engine, lake.store, table.objects, table.target).version

    def export(
        self, location: str, *, copy_data: bool = False, progress: Advance | None = None
    ) -> ExportReport:
        """Write the whole log to another place.

        Data files stay where they are and are referred to by absolute paths; with `copy_data`
        they are copied, and the commit files have the bytes that they have here. A place that
        a table of the lake holds, or that has another log in it, is refused.
        """
        lake, table = self._lake, self._table
        place = lake.objects(_free_place(lake, location))
        # Refuses a released table that others have written since: SQL's newest version is outdated.
        table.snapshot()
        return export(
            lake.store, table.objects, place, table.target, copy_data=copy_data, progress=progress
        )

    def cleanup(self, dry_run: bool = True) -> CleanupReport:  # noqa: FBT001, FBT002
        """Delete what `delta.logRetentionDuration` no longer requires from the mirror.

        SQL keeps its log; see `Table.expire`. A dry run only reports what would be deleted.
        """
        lake, table = self._lake, self._table
        return cleanup(lake.engine, lake.store, table.objects, table.target, dry_run=dry_run)


def _free_place(lake: Lake, location: str) -> str:
    """The location, absolute; raises if a table of the lake holds it, or no table may lie there."""
    found = check(lake, location)
    for claim in lake.store.claims(found):
        raise taken(found, place_of(found), claim)
    return found


def _whole(record: TableRecord, version: int) -> MirrorStatus:
    return MirrorStatus(
        table=record.name,
        version=version,
        mirrored_version=version,
        lag_versions=0,
        lag_seconds=0.0,
        pending_checkpoints=0,
        is_paused=record.mirror_paused,
        is_failed=False,
        error_message=None,
        is_released=is_released(record.read_only_reason),
    )


def _status(item: Backlog, now: int, *, is_released: bool) -> MirrorStatus:
    mirrored = item.head if item.first_version is None else item.first_version - 1
    return MirrorStatus(
        table=item.name,
        version=item.head,
        mirrored_version=mirrored if mirrored >= 0 else None,
        lag_versions=item.versions,
        lag_seconds=max(0.0, (now - item.oldest) / 1000) if item.oldest is not None else 0.0,
        pending_checkpoints=item.checkpoints,
        is_paused=item.is_paused,
        is_failed=item.is_failed,
        error_message=item.error_message,
        is_released=is_released,
        gap_versions=item.gap_versions,
    )
