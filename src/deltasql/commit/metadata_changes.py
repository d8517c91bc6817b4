"""What new metadata requires of existing files, and what a commit of it brings along.

Files that stay must be readable under it; rows that are to have ids get them; and the commit that
begins in-commit timestamps records that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from deltasql.commit.request import CommitRequest
from deltasql.errors import ValidationError
from deltasql.log.conflict import Reads
from deltasql.log.row_tracking import assign_row_ids
from deltasql.log.state import TableState
from deltasql.log.validation.changes import breaking_change, turns_on_row_ids
from deltasql.log.validation.properties import enablement
from deltasql.spec.actions import Action, AddFile, Metadata, Protocol, RemoveFile, Txn
from deltasql.spec.properties import TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_TIME
from deltasql.store.file_rows import from_batch
from deltasql.store.interface import Head, LockedLog, Outcome, Proposal, TxnLogReader
from deltasql.store.mirroring.interface import MirrorLog


@dataclass(frozen=True, slots=True)
class Changes:
    """What the actions of a commit make of a table."""

    before: TableState
    after: TableState

    @property
    def begin_timestamps(self) -> bool:
        """Whether in-commit timestamps begin with this commit."""
        return self.after.in_commit_timestamps and not self.before.in_commit_timestamps

    @property
    def need_lock(self) -> bool:
        """Whether some of the actions depend on the version that they become."""
        return self.after.row_tracking or self.begin_timestamps


def changes_of(actions: Sequence[Action], state: TableState) -> Changes:
    """What a commit of these actions makes of the table; `after` is `state` if nothing changes."""
    # Most commits change neither, and may have very many actions.
    if {Metadata, Protocol}.isdisjoint(map(type, actions)):
        return Changes(state, state)
    metadata = next((item for item in actions if type(item) is Metadata), state.metadata)
    protocol = next((item for item in actions if type(item) is Protocol), state.protocol)
    return Changes(state, replace(state, metadata=metadata, protocol=protocol))


def fitted(
    request: CommitRequest, state: TableState, log: TxnLogReader, *, base: int
) -> CommitRequest:
    """The request with what its metadata brings along.

    `ValidationError` if files that are live at `base` stay and don't fit it. That must still hold
    when the request is committed, so it then rests on all of the files.
    """
    after = changes_of(request.actions, state).after
    actions = _with_enablement_kept(request.actions, after, state)
    breaks = None if request.restores else breaking_change(after, state)
    numbers = turns_on_row_ids(after, state)
    if breaks is None and not numbers:
        return request if actions is request.actions else replace(request, actions=actions)
    if breaks is not None and _stays(actions, log.files(request.table_id, base)):
        raise breaks
    if numbers:
        actions = [*actions, *_unnumbered(actions, log.files(request.table_id, base))]
    return replace(request, actions=actions, reads=Reads.all(), read_version=base)


def _stays(actions: Sequence[Action], files: pa.RecordBatchReader) -> bool:
    """Whether any file stays; one that is removed and added again does."""
    added, removed = _paths(actions, AddFile), _paths(actions, RemoveFile)
    gone = removed - added
    return any(path not in gone for batch in files for path in batch.column("path").to_pylist())


def _unnumbered(actions: Sequence[Action], files: pa.RecordBatchReader) -> Iterator[AddFile]:
    """Files that stay but have no row ids yet: added again, they get them."""
    others = _paths(actions, AddFile) | _paths(actions, RemoveFile)
    for batch in files:
        for add in from_batch(batch):
            if add.base_row_id is None and add.path not in others:
                yield replace(add, data_change=False)


def _paths(actions: Sequence[Action], kind: type[AddFile | RemoveFile]) -> set[str]:
    return {action.path for action in actions if isinstance(action, kind)}


# --- what depends on the version --------------------------------------------------------


def clock_for(
    log: MirrorLog, requests: Sequence[CommitRequest], state_of: Callable[[int], TableState]
) -> int:
    """The database's clock, if a commit must know its time before it is written; else 0."""
    for request in requests:
        if changes_of(request.actions, state_of(request.table_id)).begin_timestamps:
            return log.clock_ms()
    return 0


def settled(
    actions: Sequence[Action], state: TableState, *, head: Head, log: LockedLog, now: int
) -> tuple[Sequence[Action], int | None]:
    """The actions of the version after `head`: with row ids, and the time it must have."""
    changes, version, at = changes_of(actions, state), head.version + 1, None
    if changes.after.row_tracking:
        actions = assign_row_ids(actions, version=version, domains=log.domains(head.table_id))
    if changes.begin_timestamps:
        at = max(now, head.last_ict + 1)
        actions = _with_enablement(actions, version=version, at=at)
    return actions, at


def write_at(log: LockedLog, proposal: Proposal, at: int | None) -> Outcome:
    """Write the next version, at the given time if it must have one."""
    if at is None:
        return log.write(proposal)
    return log.take(proposal, in_commit_timestamp=at)


def _with_enablement(actions: Sequence[Action], *, version: int, at: int) -> Sequence[Action]:
    if Txn in map(type, actions):
        raise ValidationError(
            "in-commit timestamps can't be turned on by a commit with an app_id",
            cause="its time is set before the check whether the commit was already made",
            remedy="turn them on in a commit of its own",
        )
    return _with_properties(
        actions, {TIMESTAMPS_SINCE: str(version), TIMESTAMPS_SINCE_TIME: str(at)}
    )


def _with_enablement_kept(
    actions: Sequence[Action], after: TableState, before: TableState
) -> Sequence[Action]:
    """Keep the record of when timestamps began, which replaced metadata would lose."""
    kept = enablement(before.properties)
    is_on = before.in_commit_timestamps and after.in_commit_timestamps
    if not is_on or not kept or enablement(after.properties):
        return actions
    return _with_properties(actions, kept)


def _with_properties(actions: Sequence[Action], more: Mapping[str, str]) -> Sequence[Action]:
    return [
        replace(item, configuration={**item.configuration, **more})
        if isinstance(item, Metadata)
        else item
        for item in actions
    ]
