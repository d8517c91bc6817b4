"""Versions that only the mirror has, taken back into SQL with the bytes they have there.

So it is after the database was restored to an earlier time: readers have seen these versions,
and another commit of the same number would contradict them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from deltasql.commit.loop import CommitLoop
from deltasql.commit.request import CommitRequest, propose
from deltasql.commit.requirements import Done
from deltasql.errors import MirrorError, MirrorGapError
from deltasql.log.state import TableState
from deltasql.log.validation import validate_commit
from deltasql.mirror.engine import Target
from deltasql.mirror.log_names import commit_name
from deltasql.mirror.publish import LOG
from deltasql.objectstore import ObjectInfo, ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import Action, CommitInfo
from deltasql.store.interface import Committed, ExactBody, LockedLog


def take_back(
    commits: CommitLoop, objects: ObjectStore, target: Target, found: Sequence[ObjectInfo]
) -> list[int]:
    """Write the commit files into SQL, all or none; returns the versions.

    They must follow the head without a gap, and each be valid after the one before it.
    """
    bodies = [objects.read(item.path) for item in found]
    requests = [_request(target, item, body) for item, body in zip(found, bodies, strict=True)]

    def write(locked: LockedLog) -> list[Done]:
        return [
            _take(locked, target, item, body, request)
            for item, body, request in zip(found, bodies, requests, strict=True)
        ]

    return [done.version for done in commits.commit_with(requests, write)]


def _request(target: Target, item: ObjectInfo, body: bytes) -> CommitRequest:
    actions = codec.decode_commit(body, source=item.path)
    info = _info(actions)
    return CommitRequest(
        table_id=target.table_id,
        table_name=target.name,
        actions=actions,
        # Ours again, where it was ours: so its writer, who may still ask, finds it.
        commit_id=info.txn_id or str(uuid.uuid4()),
        operation=info.operation or "UNKNOWN",
        operation_params=info.operation_parameters or {},
        committer=info.user_name,
    )


def _take(
    locked: LockedLog, target: Target, item: ObjectInfo, body: bytes, request: CommitRequest
) -> Committed:
    head = locked.heads[target.table_id]
    if item.path != LOG + commit_name(head.version + 1):
        raise MirrorGapError(
            f"{target.name}: the versions in the mirror can't be taken back",
            cause=f"after SQL's version {head.version} the mirror has {item.path}",
            remedy=f"restore {commit_name(head.version + 1)} from a copy, or move the later ones "
            "aside: mirror.repair(force=True)",
            version=head.version + 1,
        )
    state = locked.state(target.table_id).parsed()
    # A protocol that left features out was somebody's decision, and others have read it.
    validate_commit(request.actions, state, dropping=state.writer_features)
    timestamp = _time(locked, target, state, _info(request.actions), item)
    if locked.find_commit(target.table_id, request.commit_id) is not None:
        # Another version has that id.
        request.commit_id = str(uuid.uuid4())
    proposal = replace(propose(request, state, expected_head=head.version), body=ExactBody.of(body))
    outcome = locked.take(proposal, in_commit_timestamp=timestamp)
    assert isinstance(outcome, Committed), "the head is locked"
    return outcome


def _info(actions: Sequence[Action]) -> CommitInfo:
    return next((action for action in actions if isinstance(action, CommitInfo)), CommitInfo())


def _time(
    locked: LockedLog, target: Target, state: TableState, info: CommitInfo, item: ObjectInfo
) -> int:
    """When it was committed: what the commit says, else the object's own time (rule 46)."""
    last = locked.heads[target.table_id].last_ict
    if not state.in_commit_timestamps:
        return max(info.in_commit_timestamp or info.timestamp or item.modified, last + 1)
    if info.in_commit_timestamp is None or info.in_commit_timestamp <= last:
        raise MirrorError(
            f"{target.name}: {item.path} can't be taken back",
            cause="its in-commit timestamp is missing, or not after that of the version before",
            remedy="no valid writer made it; mirror.repair(force=True) moves it aside",
            path=item.path,
        )
    return info.in_commit_timestamp
