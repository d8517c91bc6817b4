"""Retention in SQL: versions that are old enough leave the history, some at a time.

The horizon, the oldest version that stays, is moved first, in a short transaction under the lock of
the table's head, together with what is proven about that version: checks and rebuilds begin there.
From then on nobody reads what is older, and its rows are deleted in batches that hold up no commit.
A run that was killed in between only has to be run again.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from deltasql.delta_log.listing import checkpoints_of
from deltasql.delta_log.reading import checkpoint_fault
from deltasql.errors import DatabaseError, TableNotFoundError, ValidationError
from deltasql.log.file_sums import FileSum
from deltasql.log.retention import log_ms, tombstone_ms
from deltasql.log.state import TableState
from deltasql.log.timestamps import from_ms
from deltasql.maintenance.vacuuming.journal import read_only
from deltasql.maintenance.vacuuming.report import retention_ms, spoken_ms
from deltasql.mirror.checkpoints.soundness import first_trusted, follow, must_be_sound
from deltasql.mirror.retained import cutoff_ms
from deltasql.objectstore import ObjectStore
from deltasql.showing.report import Report
from deltasql.spec.properties import EXPIRED_LOG_CLEANUP, LOG_RETENTION
from deltasql.store.checking.content import OTHER_KINDS, other_hash
from deltasql.store.checking.interface import Origin, TrustedVersion
from deltasql.store.interface import Head, LogStore

logger = logging.getLogger("deltasql.expire")

Progress = Callable[[int], None]

# How many versions expire, or lose their rows, in one transaction.
_STRETCH: Final = 500
# How many records of deleted files.
_BATCH: Final = 1000
# Kinds in which a later row replaces one of the same name; of the others any later row does.
_NAMED: Final = frozenset({"txns", "domains"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpireReport(Report):
    """What expired or, in a dry run, would expire.

    Versions before `kept_from` are gone, `versions` of them this time; `files` counts the deleted
    rows of files that vacuum had deleted before. `reason` says why no version expired.
    """

    table: str
    dry_run: bool
    retention: timedelta
    cutoff: datetime
    kept_from: int
    versions: int = 0
    files: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireWish:
    """What the caller asks for; see `Table.expire`."""

    retention: timedelta | str | float | None
    dry_run: bool
    enforce_retention_duration: bool
    committer: str | None


@dataclass(frozen=True, slots=True)
class _Plan:
    kept_ms: int
    cutoff: int
    horizon: int
    reason: str


def expire(
    store: LogStore,
    objects: ObjectStore,
    table_id: int,
    name: str,
    wish: ExpireWish,
    progress: Progress | None = None,
) -> ExpireReport:
    """Let versions that are older than the retention leave the history, or report which would."""
    reason = store.read_only_reason(table_id)
    if reason is not None:
        raise read_only(name, reason)
    head, record = store.head(table_id), store.state(table_id)
    if head is None or record is None:
        raise TableNotFoundError.named(name)
    state = record.parsed()
    plan = _planned(store, objects, head, state, name, wish)
    files, kept_from = 0, plan.horizon
    if not wish.dry_run:
        if not store.may_purge():
            raise _not_allowed(name)
        store.sweep()
        kept_from = _advance(store, head, plan.horizon, wish.committer, progress)
        files = _drop(store, table_id, store.clock_ms() - tombstone_ms(state.properties))
        _forget_deletions(store, table_id, max(plan.kept_ms, log_ms(state.properties)))
        facts = {"table": name, "versions": kept_from - head.earliest_version}
        logger.info("expired", extra=facts)
    pinned = "" if kept_from == plan.horizon else "an older version is now held"
    return ExpireReport(
        table=name,
        dry_run=wish.dry_run,
        retention=timedelta(milliseconds=plan.kept_ms),
        cutoff=from_ms(plan.cutoff),
        kept_from=kept_from,
        versions=kept_from - head.earliest_version,
        files=files,
        reason=plan.reason or pinned,
    )


# --- how far ----------------------------------------------------------------------------


def _planned(
    store: LogStore,
    objects: ObjectStore,
    head: Head,
    state: TableState,
    name: str,
    wish: ExpireWish,
) -> _Plan:
    """The oldest version that stays and, if none expires, why."""
    table_id, earliest = head.table_id, head.earliest_version
    kept_ms, cutoff = _cutoff(store, head, state, name, wish)

    def nothing(reason: str) -> _Plan:
        return _Plan(kept_ms, cutoff, earliest, reason)

    if state.properties.get(EXPIRED_LOG_CLEANUP, "true").lower() == "false":
        return nothing(f"{EXPIRED_LOG_CLEANUP} is false")
    newest = store.version_at(table_id, cutoff)
    if newest is None or newest <= earliest:
        return nothing("no version is that old")
    held = [pin.version for pin in store.pins() if pin.table_id == table_id]
    newest = min(newest, *held, newest)
    if newest <= earliest:
        return nothing("an older version is held; lake.pins() shows by whom")
    horizon = _mirrored_horizon(store, objects, head, newest, is_dry=wish.dry_run)
    if horizon is None or horizon <= earliest:
        return nothing("the mirror has no checkpoint that is old enough")
    return _Plan(kept_ms, cutoff, horizon, "")


def _mirrored_horizon(
    store: LogStore, objects: ObjectStore, head: Head, newest: int, *, is_dry: bool
) -> int | None:
    """The newest version, up to one, whose checkpoint is in the mirror: readers start there once
    the commits before it are gone, in SQL as well.

    What SQL says of the mirror is looked up there: the checkpoint may have been lost, or never been
    written by whoever said so. One that is not there is written again by the next worker.
    """
    horizon = store.horizon(head.table_id, upto=newest)
    while horizon is not None and horizon > head.earliest_version:
        found = checkpoints_of(objects, horizon)
        if any(checkpoint_fault(objects, item) is None for item in found):
            break
        logger.warning("the checkpoint of version %s is not in the mirror", horizon)
        if not is_dry and store.may_purge():
            store.forget_checkpoint(head.table_id, horizon)
        horizon = store.horizon(head.table_id, upto=horizon - 1)
    return horizon


def _cutoff(
    store: LogStore, head: Head, state: TableState, name: str, wish: ExpireWish
) -> tuple[int, int]:
    """The retention, and the time at which the oldest version that stays was current."""
    default = log_ms(state.properties)
    now = store.clock_ms()
    if wish.retention is None:
        kept_ms, cutoff = default, cutoff_ms(store, head.table_id)
    else:
        kept_ms = retention_ms(wish.retention)
        cutoff = now - kept_ms
        if kept_ms < default and wish.enforce_retention_duration:
            raise ValidationError(
                f"{name}: a retention of {spoken_ms(kept_ms)} is shorter than the "
                f"table's own, {spoken_ms(default)}",
                cause=f"{LOG_RETENTION} says how long versions stay in the history",
                remedy="leave the retention out, or pass enforce_retention_duration=False",
            )
    # A writer is checked against every commit since it began, and may look up its own.
    since = store.writers().writing_since
    return kept_ms, cutoff if since is None else min(cutoff, since - 1)


def _not_allowed(name: str) -> DatabaseError:
    return DatabaseError(
        f"permission denied: versions of {name} can't expire",
        cause="this role may not delete committed versions; nothing was done",
        remedy="expire as the owner of the log's tables",
        is_refusal=True,
    )


# --- the horizon ------------------------------------------------------------------------


def _advance(
    store: LogStore,
    head: Head,
    horizon: int,
    committer: str | None,
    progress: Progress | None,
) -> int:
    """Move the horizon, some versions at a time; returns how far it got."""
    reached = head.earliest_version
    if horizon <= reached:
        return reached
    # A damaged table stays as it is: the commits that show the damage would be gone.
    must_be_sound(store, head.table_id, horizon)
    known = first_trusted(store, head.table_id)
    while reached < horizon:
        upto = min(horizon, reached + _STRETCH)
        known = _proven(store, known, upto)
        if not store.advance_horizon(
            known, committer=committer, host=platform.node(), before=reached
        ):
            break
        reached = upto
        if progress is not None:
            progress(reached - head.earliest_version)
    return reached


def _proven(store: LogStore, before: TrustedVersion, version: int) -> TrustedVersion:
    """What the commits up to a version leave, without actions that later ones replaced."""
    table_id = before.table_id
    found = FileSum(follow(store, before, version))
    for kind in OTHER_KINDS:
        rows = sorted(store.other_rows(table_id, kind, version), key=lambda row: row[0])
        newest = {bytes(row[1]) if kind in _NAMED else b"": row for row in rows}
        for row in rows:
            if newest[bytes(row[1]) if kind in _NAMED else b""] is not row:
                found.drop_other(other_hash(kind, row))
    return TrustedVersion(table_id, Origin.ADOPTED, version, found.value())


# --- the rows ---------------------------------------------------------------------------


def _drop(store: LogStore, table_id: int, tombstones: int) -> int:
    """Delete the rows of everything that has expired; returns how many were rows of files."""
    while store.drop_versions(table_id, most=_STRETCH):
        pass
    files, after = 0, -1
    while (
        dropped := store.drop_files(table_id, after=after, most=_STRETCH, tombstones=tombstones)
    ) is not None:
        after, count = dropped
        files += count
    store.drop_changes(table_id)
    store.end_expiration(table_id)
    return files


def _forget_deletions(store: LogStore, table_id: int, kept_ms: int) -> None:
    """Delete what is told of files that vacuum deleted before the history that stays."""
    while store.drop_deletions(table_id, seconds=kept_ms / 1000, most=_BATCH):
        pass
