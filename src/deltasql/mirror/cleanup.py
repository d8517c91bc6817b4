"""Log cleanup: old commits leave the mirror by the spec's rules; SQL keeps its own copy."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltasql.delta_log.listing import LogListing, list_log
from deltasql.delta_log.names import LogKind, LogName, commit_name
from deltasql.delta_log.reading import checkpoint_fault, sidecars_of
from deltasql.errors import LogFormatError, MirrorError, TableNotFoundError
from deltasql.log.retention import DAY_MS
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.leases import held_leases
from deltasql.mirror.missing import missing_in
from deltasql.mirror.released import is_released
from deltasql.mirror.repairing.checkpoints import delete_with_checksum, point_at_newest
from deltasql.mirror.retained import cutoff_ms
from deltasql.mirror.validation.digests import commit_digests, differing
from deltasql.objectstore import ObjectStore
from deltasql.showing.report import Report
from deltasql.spec.properties import EXPIRED_LOG_CLEANUP
from deltasql.spec.protocol import check_writable
from deltasql.store.interface import LogStore

_BELOW = frozenset(
    {
        LogKind.COMMIT,
        LogKind.CHECKPOINT,
        LogKind.V2_CHECKPOINT,
        LogKind.CHECKPOINT_PART,
        LogKind.CHECKSUM,
    }
)
_UP_TO = frozenset({LogKind.COMPACTION, LogKind.STAGED_COMMIT})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CleanupReport(Report):
    """What cleanup deleted or, in a dry run, would delete; names are relative to `_delta_log`.

    Everything from the checkpoint of version `kept_from` on stays. If it is None, nothing is
    deleted, and `reason` says why.
    """

    table: str
    dry_run: bool
    cutoff_ms: int
    kept_from: int | None = None
    deleted: tuple[str, ...] = field(default=())
    would_delete: tuple[str, ...] = field(default=())
    reason: str = ""


def cleanup(
    engine: MirrorEngine,
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    *,
    dry_run: bool,
    upto: int | None = None,
) -> CleanupReport:
    """Delete what `delta.logRetentionDuration` no longer asks for.

    With `upto`, delete what is older than the newest checkpoint at or before that version, which
    must have expired.
    """
    if dry_run:
        return _plan(log, objects, target, upto)
    with held_leases(engine, log, target):
        plan = _plan(log, objects, target, upto)
        if plan.would_delete:
            head = log.head(target.table_id)
            assert head is not None, "the plan has seen it"
            # Before the checkpoint goes: the pointer must never name a missing one (rule 33).
            point_at_newest(objects, upto=head.version)
            for name in plan.would_delete:
                # One by one and oldest first, so that an interruption leaves no hole.
                delete_with_checksum(objects, name)
    return CleanupReport(
        table=plan.table,
        dry_run=False,
        cutoff_ms=plan.cutoff_ms,
        kept_from=plan.kept_from,
        deleted=plan.would_delete,
        reason=plan.reason,
    )


def _plan(log: LogStore, objects: ObjectStore, target: Target, upto: int | None) -> CleanupReport:
    record = log.state(target.table_id)
    if record is None:
        raise TableNotFoundError.named(target.name)
    state = record.parsed()
    # Deleting requires knowing every rule for the table's writers (rule 52).
    check_writable(state.protocol)
    cutoff = cutoff_ms(log, target.table_id)

    def nothing(reason: str) -> CleanupReport:
        return CleanupReport(table=target.name, dry_run=True, cutoff_ms=cutoff, reason=reason)

    if is_released(reason := log.read_only_reason(target.table_id)):
        return nothing(reason or "")
    if state.properties.get(EXPIRED_LOG_CLEANUP, "true").lower() == "false":
        return nothing(f"{EXPIRED_LOG_CLEANUP} is false")
    head = log.head(target.table_id)
    if head is not None and missing_in(log, target.table_id, head.version).bridged:
        return nothing("a backlog was bridged, and older versions are still being written")
    newest = log.version_at(target.table_id, cutoff) if upto is None else upto
    if newest is None:
        return nothing("no commit is that old")
    listing = list_log(objects)
    kept = next(
        (
            found.version
            for found in listing.newest_first(newest)
            # A reader of that version needs both (rule 53).
            if found.version in listing.commits and checkpoint_fault(objects, found) is None
        ),
        None,
    )
    if kept is None:
        return nothing("no checkpoint is that old")
    digests = commit_digests(log, target.table_id)
    if differing(objects, digests, digests.keys() & {kept}):
        return nothing(f"{commit_name(kept)} is not ours: run mirror.repair()")
    names = [name for name in listing.names() if _is_old(name, kept)]
    names.sort(key=lambda name: (name.version or 0, name.name))
    sidecars = _unused_sidecars(objects, listing, kept, log.clock_ms() - DAY_MS)
    return CleanupReport(
        table=target.name,
        dry_run=True,
        cutoff_ms=cutoff,
        kept_from=kept,
        would_delete=(*(name.name for name in names), *sidecars),
    )


def _is_old(name: LogName, kept: int) -> bool:
    if name.version is None:
        return False
    return (
        name.version < kept
        if name.kind in _BELOW
        else (name.kind in _UP_TO and name.version <= kept)
    )


def _unused_sidecars(
    objects: ObjectStore, listing: LogListing, kept: int, older_than: int
) -> list[str]:
    """Sidecars that neither a remaining checkpoint nor one being written may name."""
    unused = {
        name.name: item
        for name, item in listing.of_kind(LogKind.SIDECAR)
        if item.modified < older_than
    }
    if not unused:
        return []
    for version, checkpoints in listing.checkpoints.items():
        for found in checkpoints if version >= kept else ():
            for top in found.names:
                try:
                    for used in sidecars_of(objects, top):
                        unused.pop(used, None)
                except (MirrorError, LogFormatError):
                    return []  # it is unknown which sidecars it names
    return sorted(unused)
