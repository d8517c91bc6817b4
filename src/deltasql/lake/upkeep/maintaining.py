"""Upkeep as users see it: `table.vacuum`, `lake.vacuum`, `lake.sessions`, pins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast

from deltasql.commit import CommitRequest
from deltasql.errors import CommitError, ConfigError, TableNotFoundError, ValidationError
from deltasql.lake.upkeep import cloning
from deltasql.lake.upkeep.altering import TableColumns
from deltasql.lake.upkeep.background import LakeMaintenance
from deltasql.lake.upkeep.checks import LakeChecks
from deltasql.lake.upkeep.dropping import TableFeatures
from deltasql.lake.upkeep.every_table import on_every_table
from deltasql.lake.upkeep.optimizing import TableOptimize
from deltasql.lake.upkeep.retaining import LakeRetention, TableRetention
from deltasql.lake.upkeep.sources import must_be_allowed
from deltasql.lake.upkeep.table_properties import TableProperties
from deltasql.lake.writing import commit_info, now_ms
from deltasql.log.conflict import Reads
from deltasql.log.retention import tombstone_ms
from deltasql.log.timestamps import Timestamp, from_ms, to_ms, written
from deltasql.maintenance import restoring
from deltasql.maintenance.existing import gone_files, must_exist
from deltasql.maintenance.presence import PIN_SECONDS, Presence
from deltasql.maintenance.restoring import RestoreReport
from deltasql.maintenance.vacuuming import run
from deltasql.maintenance.vacuuming.leftovers import Leftover, leftovers
from deltasql.maintenance.vacuuming.report import CLOCK_MARGIN, VacuumReport, retention_ms
from deltasql.mirror.engine import Target
from deltasql.store.upkeep.interface import PinRecord
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table

__all__ = ["LakeUpkeep", "Leftover", "RestoreReport", "SessionInfo", "TableUpkeep", "VacuumReport"]

_LONGEST_PIN: Final = timedelta(days=36_500)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A process that writes, by the database's clock.

    `writing_since` is when its oldest write began, of those under way when it was last heard from.
    A process that was silent for ten minutes is not `is_alive`. `holds` are the versions it keeps
    open, as (table, version).
    """

    session_id: str
    kind: str
    host: str
    pid: int
    committer: str | None
    started_at: datetime
    heartbeat_at: datetime
    writing_since: datetime | None
    is_alive: bool
    holds: tuple[tuple[str | None, int], ...] = ()


class LakeUpkeep(LakeChecks, LakeRetention):
    """What a lake does to keep its tables in shape."""

    __slots__ = ()

    @cached_property
    def presence(self) -> Presence:
        """What this process is doing with the lake, as far as vacuum must know."""
        lake = cast("Lake", self)
        return Presence(lake.store, committer=lake.committer)

    @cached_property
    def maintenance(self) -> LakeMaintenance:
        """Upkeep in the background: its queue."""
        return LakeMaintenance(cast("Lake", self))

    def vacuum(
        self,
        retention: timedelta | str | float | None = None,
        dry_run: bool = True,  # noqa: FBT001, FBT002 - the public name
        *,
        enforce_retention_duration: bool = True,
        progress: Callable[[str, int], None] | None = None,
    ) -> list[VacuumReport]:
        """`Table.vacuum` of every table that deltasql may write, by name.

        `progress` is called with the table's name and how many of its files are gone.
        """
        return on_every_table(
            cast("Lake", self),
            lambda table: table.vacuum(
                retention,
                dry_run,
                enforce_retention_duration=enforce_retention_duration,
                progress=_named(progress, table.name),
            ),
        )

    def leftovers(self, age: timedelta | str | float | None = None) -> list[Leftover]:
        """Folders below the lake's location that are no table's, with files of Delta writers.

        A process that dies while it creates a table with rows leaves them. Nothing is deleted. Told
        is what is older than `age` (a week by default, as for `Table.vacuum`) and than every live
        process's writes.
        """
        lake = cast("Lake", self)
        if lake.location is None:
            raise ConfigError(
                "the lake has no location to look at",
                remedy="pass location= to connect, or set DELTASQL_LOCATION",
            )
        lake.presence.beat()
        writers = lake.store.writers()
        since = writers.now - (tombstone_ms({}) if age is None else retention_ms(age))
        if writers.may_have_written_since is not None:
            since = min(since, writers.may_have_written_since)
        margin = round(CLOCK_MARGIN.total_seconds() * 1000)
        return leftovers(
            lake.store, lake.objects(lake.location), lake.location, older_than=since - margin
        )

    def sessions(self) -> list[SessionInfo]:
        """The processes that write to the lake, oldest first."""
        store = cast("Lake", self).store
        pins = store.pins()
        return [
            SessionInfo(
                session_id=item.session_id,
                kind=item.kind,
                host=item.host,
                pid=item.pid,
                committer=item.committer,
                started_at=from_ms(item.started_at),
                heartbeat_at=from_ms(item.heartbeat_at),
                writing_since=None if item.writing_since is None else from_ms(item.writing_since),
                is_alive=item.is_alive,
                holds=tuple(
                    (pin.table, pin.version) for pin in pins if pin.session_id == item.session_id
                ),
            )
            for item in store.sessions()
        ]

    def pins(self) -> list[PinRecord]:
        """The versions that somebody keeps open: vacuum keeps their files."""
        return cast("Lake", self).store.pins()


class TableUpkeep(TableColumns, TableProperties, TableFeatures, TableOptimize, TableRetention):
    """What a table does to keep in shape."""

    __slots__ = ()

    def vacuum(
        self,
        retention: timedelta | str | float | None = None,
        dry_run: bool = True,  # noqa: FBT001, FBT002 - the public name
        *,
        enforce_retention_duration: bool = True,
        find_orphans: bool = True,
        clock_margin: timedelta = CLOCK_MARGIN,
        progress: Callable[[int], None] | None = None,
    ) -> VacuumReport:
        """Delete the files that no version within the retention needs; by default only report.

        `retention` is a duration, a text such as `7 days`, or a number of hours; by default that
        of `delta.deletedFileRetentionDuration`. A shorter one needs
        `enforce_retention_duration=False`, and one shorter than a write under way is refused.
        Orphans, files that no version knows, are searched for by a listing unless `find_orphans` is
        False; they must be older than the retention and every live writer's writes by at least
        `clock_margin`, since their times come from another clock.
        """
        table = cast("Table", self)
        lake = table._lake
        # Report the present state: what this process wrote a moment ago is committed by now.
        lake.presence.beat()
        subject = run.Subject(
            table_id=table.table_id,
            name=table.name,
            location=table.location,
            state=lake.states.refresh(table.table_id),
            objects=table.objects,
        )
        wish = run.Wish(
            retention=retention,
            dry_run=dry_run,
            enforce_retention_duration=enforce_retention_duration,
            clock_margin=clock_margin,
            find_orphans=find_orphans,
            committer=lake.committer,
        )
        return run.vacuum(lake.store, subject, wish, progress)

    def restore(
        self,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> RestoreReport:
        """Restore the table to a version or a time, as a new commit.

        Files and metadata become what they were; the versions in between stay in the history. If a
        file is gone, nothing is committed. A concurrent commit of another writer is a conflict,
        except for a blind append, whose rows stay as if they had been appended afterwards.
        """
        if (version is None) == (timestamp is None):
            raise ValidationError(
                "a restore needs a version or a timestamp",
                cause="neither was given, or both were",
                remedy="give one of the two",
            )
        table = cast("Table", self)
        if timestamp is not None:
            _must_have_come(table, timestamp)
        then = table.base(version, timestamp)
        return restore(table, then, version, timestamp, told=commit_metadata)

    def clone(
        self,
        name: str,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        location: str | os.PathLike[str] | None = None,
    ) -> Table:
        """A shallow clone: a new table whose rows are this one's, without copying a file.

        The two are independent from then on. Vacuum and purge of this table spare what a clone in
        the same lake still names.
        """
        table = cast("Table", self)
        return cloning.clone(table, table.base(version, timestamp), name, location)

    @contextmanager
    def pin(
        self,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        reason: str = "pin",
        ttl: timedelta = timedelta(seconds=PIN_SECONDS),
    ) -> Iterator[Snapshot]:
        """A snapshot whose files vacuum keeps until the block ends, however long that takes.

        If the process dies, the pin outlives it by `ttl`, and by a minute at least.
        """
        if ttl > _LONGEST_PIN:
            raise ValidationError(
                f"ttl can't be {ttl}",
                cause="the pin would outlive its process for longer than a century",
                remedy="leave it out: a living process renews its pin while the block lasts",
            )
        table = cast("Table", self)
        snapshot = table.base(version, timestamp)
        presence = table._lake.presence
        seconds = ttl.total_seconds()
        with presence.pinned(table.table_id, snapshot.version, reason, seconds=seconds):
            yield snapshot


def _must_have_come(table: Table, timestamp: Timestamp) -> None:
    """Raise `ValidationError` if a time is yet to come: what the table is then is not known."""
    now = table._lake.store.clock_ms()
    if to_ms(timestamp) > now:
        raise ValidationError(
            f"{table.name} can't be restored to {timestamp}: that time is yet to come",
            cause=f"by the clock of the log's database it is {written(now)}",
            remedy="give the time of an older version, or its number: history() lists them",
        )


def restore(
    table: Table,
    then: Snapshot,
    version: int | None,
    timestamp: Timestamp | None,
    *,
    told: Mapping[str, Any] | None = None,
) -> RestoreReport:
    """See `Table.restore`."""
    lake = table._lake
    name = f"{table.name} can't be restored to version {then.version}"
    pinned = lake.presence.pinned(table.table_id, then.version, "restore")
    with tracing.span("restore", table=table.name), lake.presence.writing(), pinned:
        now = table.base()
        wanted = restoring.plan(
            now=now.state,
            then=then.state,
            files_now=now.adds(),
            files_then=then.adds(),
            domains_now=now.domains,
            domains_then=then.domains,
            deletion_timestamp=now_ms(),
        )
        must_exist(lake.store, table.objects, table.table_id, wanted.added, what=name)
        request = table.request(
            [*commit_info(wanted.metrics, told), *wanted.actions],
            operation="RESTORE",
            operation_params={
                "version": version,
                "timestamp": None if timestamp is None else from_ms(to_ms(timestamp)).isoformat(),
            },
            reads=Reads.all(),
            read_version=now.version,
            restores=True,
        )
        done = table.send(request)
    table.mirror_commit(request, done)
    return RestoreReport(
        version=done.version, restored_version=then.version, metrics=wanted.metrics
    )


def writes(
    method: Callable[Concatenate[Table, P], R],
) -> Callable[Concatenate[Table, P], R]:
    """Wrap a method that writes files and commits them: vacuum spares them meanwhile."""

    @wraps(method)
    def writing(self: Table, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with tracing.span(method.__name__, table=self.name), self._lake.presence.writing():
            return method(self, *args, **kwargs)

    return writing


def must_be_ready(lake: Lake, targets: Sequence[Target], requests: Sequence[CommitRequest]) -> None:
    """Raise if one of the mirrors is ahead of SQL, or if files of the commits are gone or lie
    where their tables may not read.
    """
    for target, request in zip(targets, requests, strict=True):
        lake.engine.must_not_be_ahead(target)
        must_be_allowed(lake, target, request)
    if lake.presence.was_given_up():
        for target, request in zip(targets, requests, strict=True):
            _must_still_exist(lake, target, request)


def _must_still_exist(lake: Lake, target: Target, request: CommitRequest) -> None:
    """Raise `CommitError` if vacuum took this process for dead and deletes what it wrote."""
    # A vacuum that decided without us has the lock: wait until it has told what it deletes.
    with lake.store.locked([target.table_id]):
        pass
    gone = gone_files(lake.store, lake.objects(target.location), target.table_id, request.actions)
    if gone:
        raise CommitError(
            f"{request.table_name}: {min(gone)} is gone; nothing was committed",
            cause="this process paused for so long that vacuum considered it dead and "
            "deleted files that it had not committed yet",
            remedy="write the rows again",
        )


def gone(name: str) -> TableNotFoundError:
    """The error for a table that is no longer there."""
    return TableNotFoundError.named(name, cause="it was dropped")


def _named(progress: Callable[[str, int], None] | None, name: str) -> Callable[[int], None] | None:
    return None if progress is None else lambda count: progress(name, count)
