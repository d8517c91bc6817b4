"""Versions that only the mirror has, taken back into SQL with the bytes they have there.

They exist after the database was restored to an earlier time: readers have seen these versions, and
other commits with the same numbers would contradict them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from deltasql.commit.loop import CommitLoop
from deltasql.commit.request import CommitRequest, propose
from deltasql.commit.requirements import Done
from deltasql.delta_log.listing import LogListing
from deltasql.delta_log.names import LOG, commit_name
from deltasql.delta_log.reading import FilesAside, read_mirror
from deltasql.errors import MirrorConflictError, MirrorError, MirrorGapError
from deltasql.log.state import TableState
from deltasql.log.validation.commits import validate_commit
from deltasql.mirror.engine import Target
from deltasql.mirror.released import release_reason
from deltasql.mirror.validation.digests import commit_digests, differing
from deltasql.objectstore import ObjectInfo, ObjectStore
from deltasql.places import uri_of
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, CdcFile, CommitInfo, Metadata, Protocol
from deltasql.spec.features import FENCE
from deltasql.spec.paths import is_elsewhere
from deltasql.store.checking.scratch import Scratch
from deltasql.store.interface import Committed, ExactBody, LockedLog, LogStore


def take_back(
    commits: CommitLoop,
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    listing: LogListing,
) -> list[int]:
    """Write the commit files beyond SQL's head into SQL, all or none; returns the versions.

    They must follow the head without a gap, and each must be valid after the one before it. A
    release is the last one taken, and leaves the table released: what follows belongs to others.
    """
    record = log.state(target.table_id)
    assert record is not None, "the table is there"
    state = record.parsed()
    _must_continue(log, objects, target, listing, state)
    found, bodies, requests = [], [], []
    protocol, is_release = state.protocol, False
    for version in listing.commits.after(state.version):
        item = listing.commits[version]
        body = objects.read(item.path)
        request = _request(target, item, body)
        found.append(item)
        bodies.append(body)
        requests.append(request)
        _must_be_same_table(target, item, request.actions, state)
        _must_stay_inside(objects, request.actions)
        is_release = _is_release(request, is_fenced=_fences(protocol))
        if is_release:
            break
        protocol = _protocol(request.actions) or protocol

    def write(locked: LockedLog) -> list[Done]:
        done: list[Done] = [
            _take(locked, target, item, body, request)
            for item, body, request in zip(found, bodies, requests, strict=True)
        ]
        if is_release:
            locked.set_read_only(target.table_id, release_reason(done[-1].version))
        return done

    return [done.version for done in commits.commit_with(requests, write)]


def _must_continue(
    log: LogStore, objects: ObjectStore, target: Target, listing: LogListing, state: TableState
) -> None:
    """Raise `MirrorConflictError` unless the mirror agrees with SQL on what SQL knows."""
    digests = commit_digests(log, target.table_id)
    known = [version for version in listing.commits if version in digests]
    others = differing(objects, digests, known)
    if not others and state.version in digests and state.version not in listing.commits:
        others = [state.version]
    if others:
        name = commit_name(others[0])
        raise MirrorConflictError(
            f"{target.name}: the versions in the mirror can't be taken back",
            cause=f"they are another history's: {name} is missing there, or is not what SQL has",
            remedy="nothing was committed; look at both: mirror.repair(force=True) keeps SQL's, "
            "drop_table and adopt the mirror's",
            path=LOG + name,
            version=others[0],
        )
    if state.version in digests:
        return
    # Adopted from a checkpoint: there is no commit file to compare.
    with Scratch() as scratch:
        replay = FilesAside(scratch)
        read_mirror(objects, listing, state.version, replay)
    _, metadata = replay.table()
    if metadata.id != state.metadata.id:
        raise _other_table(target, f"version {state.version}", metadata.id)


def _must_be_same_table(
    target: Target, item: ObjectInfo, actions: Sequence[Action], state: TableState
) -> None:
    for action in actions:
        if isinstance(action, Metadata) and action.id != state.metadata.id:
            raise _other_table(target, item.path, action.id)


def _must_stay_inside(objects: ObjectStore, actions: Sequence[Action]) -> None:
    """Raise `ValidationError` if a path leads outside the table and its sources."""
    for action in actions:
        if isinstance(action, AddFile | CdcFile) and is_elsewhere(action.path):
            objects.resolve(uri_of(action.path, objects.location))


def _other_table(target: Target, where: str, found: str) -> MirrorConflictError:
    return MirrorConflictError(
        f"{target.name}: the versions in the mirror can't be taken back",
        cause=f"they are another table's: {where} says that its id is {found}",
        remedy="nothing was committed; mirror.repair(force=True) moves them aside",
    )


def _is_release(request: CommitRequest, *, is_fenced: bool) -> bool:
    """Whether a commit hands the table to others: by its operation, or by dropping the fence."""
    protocol = _protocol(request.actions)
    goes_down = is_fenced and protocol is not None and not _fences(protocol)
    return request.operation == "RELEASE" or goes_down


def _protocol(actions: Sequence[Action]) -> Protocol | None:
    return next((action for action in actions if isinstance(action, Protocol)), None)


def _fences(protocol: Protocol) -> bool:
    return FENCE in (protocol.writer_features or ())


def _request(target: Target, item: ObjectInfo, body: bytes) -> CommitRequest:
    actions = codec.decode_commit(body, source=item.path)
    info = _info(actions)
    return CommitRequest(
        table_id=target.table_id,
        table_name=target.name,
        actions=actions,
        # The original id, if we committed it: its writer, who may still ask, finds it.
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
    # Dropping features was somebody's decision, and others have already read it.
    validate_commit(request.actions, state, dropping=state.writer_features)
    timestamp = _time(locked, target, state, _info(request.actions), item)
    if locked.find_commit(target.table_id, request.commit_id) is not None:
        # Another version already has that id.
        request.commit_id = str(uuid.uuid4())
    proposal = replace(
        propose(request, state, expected_head=head.version),
        body=ExactBody.of(body),
        is_blind_append=bool(_info(request.actions).is_blind_append),
    )
    outcome = locked.take(proposal, in_commit_timestamp=timestamp)
    assert isinstance(outcome, Committed), "the head is locked"
    return outcome


def _info(actions: Sequence[Action]) -> CommitInfo:
    return next((action for action in actions if isinstance(action, CommitInfo)), CommitInfo())


def _time(
    locked: LockedLog, target: Target, state: TableState, info: CommitInfo, item: ObjectInfo
) -> int:
    """The commit time: what the commit says, else the object's own time (rule 46)."""
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
