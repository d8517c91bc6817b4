"""A checkpoint that somebody asks for, whether the rule says that one is due or not."""

from __future__ import annotations

from deltasql.delta_log.checkpoint.writing import CheckpointSummary
from deltasql.errors import MirrorError, TableNotFoundError
from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
from deltasql.mirror.checkpoints.soundness import SumRows
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.leases import LeaseLostError, busy, held_lease
from deltasql.mirror.missing import missing_in
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Work


def checkpoint_now(
    engine: MirrorEngine,
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    *,
    sums: SumRows | None = None,
) -> CheckpointSummary:
    """Write the checkpoint of the newest version that is mirrored. `sums`: see `must_be_sound`."""
    reason = log.read_only_reason(target.table_id)
    if reason is not None:
        raise MirrorError(
            f"{target.name} gets no checkpoint from here",
            cause=f"its log belongs to others: {reason}",
            remedy="let the writers of the table write it",
        )
    with held_lease(engine, log, target, Work.CHECKPOINTS) as lease:
        head = log.head(target.table_id)
        if head is None:
            raise TableNotFoundError.named(target.name)
        newest = missing_in(log, target.table_id, head.version).newest
        if newest < head.earliest_version:
            raise MirrorError(
                f"{target.name} can't have a checkpoint yet",
                cause="no version of it is mirrored",
                remedy="let a worker mirror it first",
            )
        run = CheckpointRun(
            log, objects, lease, max_attempts=engine.settings.mirror_max_retry_attempts, sums=sums
        )
        try:
            return run.write_now(newest)
        except LeaseLostError:
            raise busy(target.name) from None
