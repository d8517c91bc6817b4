"""Large commits prepared before the heads are locked, in the form they take if nothing changes.

A draft that still fits under the lock is used as it is, so that nobody waits while a hundred
thousand actions are checked, rendered and sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from deltasql.commit.collector import paused_for
from deltasql.commit.metadata_changes import changes_of
from deltasql.commit.request import CommitRequest, propose
from deltasql.log.row_tracking import assign_row_ids
from deltasql.log.state import TableState
from deltasql.log.validation.commits import validate_commit
from deltasql.store.interface import Head, LockedLog, LogStore, Proposal

# With fewer actions, preparing takes no longer than the lock itself.
LARGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class DraftedCommit:
    """A proposal, valid for the metadata and protocol that it names.

    `head` is the only head that it can follow, because its rows have ids.
    """

    proposal: Proposal
    head: int | None

    def following(self, head: Head) -> Proposal | None:
        """The proposal for the version after `head`; None if it does not fit there."""
        draft = self.proposal
        if self.head not in (None, head.version):
            return None
        checked = (draft.metadata_version, draft.protocol_version)
        if checked != (head.metadata_version, head.protocol_version):
            return None
        return replace(draft, expected_head=head.version)


def draft_large(
    store: LogStore, requests: Sequence[CommitRequest], state_of: Callable[[int], TableState]
) -> dict[int, DraftedCommit]:
    """The drafts of those requests that are large, by table."""
    found = ((item.table_id, _draft(store, item, state_of(item.table_id))) for item in requests)
    return {table_id: drafted for table_id, drafted in found if drafted is not None}


def locked_after(
    store: LogStore, requests: Sequence[CommitRequest], drafts: Mapping[int, DraftedCommit]
) -> AbstractContextManager[LockedLog]:
    """The heads of the requests' tables, locked once the drafts have arrived."""
    ids = [request.table_id for request in requests]
    if not drafts:
        return store.locked(ids)
    return store.locked(ids, drafts=[drafted.proposal for drafted in drafts.values()])


def _draft(store: LogStore, request: CommitRequest, state: TableState) -> DraftedCommit | None:
    """The draft of a large request, checked against `state`; None if it is small."""
    if len(request.actions) < LARGE:
        return None
    changes = changes_of(request.actions, state)
    if changes.begin_timestamps:
        # Its metadata contains the time that the database will give it.
        return None
    actions, follows = request.actions, None
    if changes.after.row_tracking:
        head = store.head(request.table_id)
        if head is None:
            return None
        follows = head.version
        domains = store.domains(request.table_id, follows)
        actions = assign_row_ids(actions, version=follows + 1, domains=domains)
    with paused_for(len(actions)):
        validate_commit(request.actions, state, dropping=request.dropping)
        proposal = propose(request, state, actions=actions)
    return DraftedCommit(proposal, follows)
