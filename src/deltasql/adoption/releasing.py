"""Release: hands a table back to plain Delta, with everything in its mirror."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Final

from deltasql.adoption.fencing import is_fenced, lower_fence
from deltasql.commit.loop import CommitLoop
from deltasql.commit.request import CommitRequest, propose
from deltasql.commit.requirements import Done
from deltasql.errors import DeltaSqlError, MirrorError, TableNotFoundError
from deltasql.log.state import TableState
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.leases import LONGEST_WAIT, busy
from deltasql.mirror.released import is_released, release_reason
from deltasql.spec.properties import TIMESTAMPS_SINCE
from deltasql.store.interface import Committed, LockedLog, LogStore

_LOOK_EVERY: Final = 0.05


def release(
    engine: MirrorEngine,
    log: LogStore,
    commits: CommitLoop,
    target: Target,
    *,
    committer: str | None,
    engine_info: str,
    keep_timestamps: bool | None = None,
) -> int:
    """Mirror everything, lower the fence in a last commit, and mirror that; returns its version.

    From that commit on, deltasql refuses to write the table. If adoption had turned in-commit
    timestamps on, they are turned off again, since not every writer knows them; `keep_timestamps`
    overrides this.
    """
    engine.must_not_be_ahead(target)
    mirror_all(engine, log, target)
    reason = log.read_only_reason(target.table_id)
    if reason is None:
        request = CommitRequest(
            table_id=target.table_id,
            table_name=target.name,
            actions=(),
            commit_id=str(uuid.uuid4()),
            operation="RELEASE",
            committer=committer,
            engine=engine_info,
        )
        version = _commit_release(log, commits, request, target, keep_timestamps)
    else:
        # Nothing of ours is in its log, so there is no fence to lower.
        version = _head(log, target)
        if not is_released(reason):
            log.set_read_only(target.table_id, release_reason(version))
    try:
        mirror_all(engine, log, target)
    except DeltaSqlError as error:
        raise MirrorError(
            f"{target.name} is released at version {version}, but not all of it is in the mirror",
            cause=error.problem,
            remedy="release it again: that only mirrors what is missing",
            version=version,
        ) from error
    return version


def _commit_release(
    log: LogStore,
    commits: CommitLoop,
    request: CommitRequest,
    target: Target,
    keep_timestamps: bool | None,  # noqa: FBT001
) -> int:
    head = log.state(target.table_id)
    if head is None:
        raise _gone(target)
    if keep_timestamps is None:
        keep_timestamps = not adoption_set_timestamps(log, target.table_id, head.parsed())

    def write(locked: LockedLog) -> list[Done]:
        if target.table_id not in locked.heads:
            raise _gone(target)
        state = locked.state(target.table_id).parsed()
        # Without a fence, it restates the protocol, so that every writer must look again.
        actions = lower_fence(state, keep_timestamps=keep_timestamps)
        wanted = replace(request, actions=actions, read_version=state.version)
        outcome = locked.write(propose(wanted, state, expected_head=state.version))
        assert isinstance(outcome, Committed), "the head is locked"
        locked.set_read_only(target.table_id, release_reason(outcome.version))
        return [outcome]

    (done,) = commits.commit_with([request], write)
    return done.version


def adoption_set_timestamps(log: LogStore, table_id: int, state: TableState) -> bool:
    """Whether the commit that fenced the table also turned in-commit timestamps on."""
    since = state.properties.get(TIMESTAMPS_SINCE, "")
    if not state.in_commit_timestamps or not since.isdecimal() or int(since) == 0:
        return False
    then, before = (log.state(table_id, int(since) - step) for step in (0, 1))
    if then is None or before is None:
        return False
    return is_fenced(then.parsed()) and not is_fenced(before.parsed())


def mirror_all(engine: MirrorEngine, log: LogStore, target: Target) -> None:
    """Bring every commit file and checkpoint of a table to the object store, or raise.

    Those of a paused table, too: whoever releases it wants all of it there.
    """
    deadline = time.monotonic() + LONGEST_WAIT
    while (
        engine.catch_up(target, heeds_pauses=False) is None
        or engine.write_checkpoints(target) is None
    ):
        if time.monotonic() > deadline:
            raise busy(target.name)
        time.sleep(_LOOK_EVERY)
    waiting = log.pending(target.table_id, most=1)
    if waiting:
        raise MirrorError(
            f"{target.name}: version {waiting[0].version} is not in the mirror",
            cause="it was committed in the meantime, or another process holds the lease",
            remedy="try again",
        )


def _head(log: LogStore, target: Target) -> int:
    head = log.head(target.table_id)
    if head is None:
        raise _gone(target)
    return head.version


def _gone(target: Target) -> TableNotFoundError:
    return TableNotFoundError.named(target.name)
