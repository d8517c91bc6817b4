"""The one retry loop.

A blind append is sent as it is and can't lose. Anything that read or removed is checked
against the commits it did not see, first outside the lock, tried once, and if it lost
checked again under the lock, where it can't lose: so it never starves beside appenders.
A lost connection is answered by asking for the same commit id again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from deltasql import metrics
from deltasql.commit.collector import paused_for
from deltasql.commit.drafting import DraftedCommit, draft_large, locked_after
from deltasql.commit.metadata_changes import changes_of, clock_for, fitted, settled, write_at
from deltasql.commit.request import CommitRequest, propose
from deltasql.commit.states import StateCache
from deltasql.commit.telling import tell, tell_done
from deltasql.errors import (
    CommitError,
    CommitStateUnknownError,
    ConcurrentTransactionError,
    DatabaseError,
    DeltaSqlError,
    MetadataChangedError,
    MirrorError,
    ProtocolChangedError,
    StoreError,
    TableError,
    TableNotFoundError,
    ValidationError,
    VersionConflictError,
)
from deltasql.log.conflict import Attempt, Winner, check_conflicts
from deltasql.log.state import TableState
from deltasql.log.validation import validate_commit
from deltasql.spec import codec
from deltasql.spec.protocol import check_writable
from deltasql.store.interface import (
    CommitRecord,
    Committed,
    Head,
    LockedLog,
    LogStore,
    NoTable,
    Proposal,
    TxnSeen,
    VersionTaken,
)

Done = Committed | TxnSeen
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class CommitLoop:
    """Commits requests to a store, whatever the network does meanwhile."""

    def __init__(
        self,
        store: LogStore,
        states: StateCache,
        *,
        timeout: float,
        before_again: Callable[[Iterable[int]], None] = lambda _: None,
    ) -> None:
        """`before_again` may object, by a `MirrorError`, to sending a commit again to tables."""
        self._before_again = before_again
        self._store = store
        self._states = states
        self._timeout = timeout
        # By table: the protocol under which it was last seen to be writable.
        self._writable: dict[int, int] = {}

    def commit(self, request: CommitRequest) -> Done:
        """Commit to one table."""
        state = self._states.current(request.table_id)
        is_plain = request.is_blind_append and not state.row_tracking
        way = self._append if is_plain else self._commit_checked
        (done,) = self._until_known([request], lambda is_retry: [way(request, is_retry=is_retry)])
        return done

    def commit_all(
        self,
        requests: Sequence[CommitRequest],
        *,
        inside: Callable[[LockedLog], None] | None = None,
    ) -> list[Done]:
        """Commit to several tables, all or nothing; `inside` joins the same transaction."""
        for request in requests:
            validate_commit(request.actions, self._states.current(request.table_id))
        requests = [self._fitted(r, self._states.current(r.table_id)) for r in requests]
        checked = {request.table_id: self._check_outside(request) for request in requests}
        return self._until_known(
            requests,
            lambda _: self._commit_locked(requests, checked, inside=inside),
        )

    # --- one attempt ------------------------------------------------------------------

    def _append(self, request: CommitRequest, *, is_retry: bool) -> Done:
        state = self._states.current(request.table_id)
        while True:
            _metadata_must_be_as_read(request, state)
            self._must_be_writable(request, state)
            proposal = _checked_proposal(request, state, _pinned_head(request))
            outcome = self._store.commit(proposal, is_retry=is_retry)
            if isinstance(outcome, VersionTaken):
                _pin_must_hold(request, outcome.head)
                state = self._states.refresh(request.table_id)
                continue
            return _done(request, outcome)

    def _commit_checked(self, request: CommitRequest, *, is_retry: bool) -> Done:
        state = self._states.refresh(request.table_id)
        self._must_be_writable(request, state)
        validate_commit(request.actions, state)
        request = self._fitted(request, state)
        if not changes_of(request.actions, state).need_lock:
            checked = self._check_outside(request)
            pinned = _pinned_head(request)
            head = checked if pinned is None else pinned
            with paused_for(len(request.actions)):
                proposal = propose(request, state, expected_head=head)
            outcome = self._store.commit(proposal, is_retry=is_retry)
            if not isinstance(outcome, VersionTaken):
                return _done(request, outcome)
        else:
            checked = self._base(request)
        (done,) = self._commit_locked([request], {request.table_id: checked})
        return done

    def _commit_locked(
        self,
        requests: Sequence[CommitRequest],
        checked: dict[int, int],
        *,
        inside: Callable[[LockedLog], None] | None = None,
    ) -> list[Done]:
        # Asked before the lock is taken: under it there may be no connection to ask on.
        now = clock_for(self._store, requests, self._states.current)
        drafts = draft_large(self._store, requests, self._states.current)
        with locked_after(self._store, requests, drafts) as log:
            done = [
                self._write(log, item, checked[item.table_id], now, drafts.get(item.table_id))
                for item in requests
            ]
            _txns_must_agree(requests, done)
            # What was committed before is not done again, neither is what went with it.
            if inside is not None and all(item.is_new for item in done):
                inside(log)
            return done

    def _write(
        self,
        log: LockedLog,
        request: CommitRequest,
        checked: int,
        now: int,
        drafted: DraftedCommit | None = None,
    ) -> Done:
        head = log.heads.get(request.table_id)
        if head is None:
            raise _gone(request)
        _pin_must_hold(request, head)
        state = self._states.current(request.table_id)
        if (state.metadata_version, state.protocol_version) != (
            head.metadata_version,
            head.protocol_version,
        ):
            state = self._states.remember(request.table_id, log.state(request.table_id))
        _metadata_must_be_as_read(request, state)
        # Asked on this connection: with the heads locked there may be no other.
        self._must_be_writable(request, state, log)
        if not request.is_blind_append:
            # The metadata is as it was read, so that the check needs no other state.
            self._check(request, state, log.commits(request.table_id, after=checked))
        ready = drafted.following(head) if drafted is not None else None
        if ready is not None:
            return _done(request, log.write(ready))
        validate_commit(request.actions, state)
        actions, at = settled(request.actions, state, head=head, log=log, now=now)
        with paused_for(len(actions)):
            proposal = propose(request, state, actions=actions, expected_head=head.version)
        return _done(request, write_at(log, proposal, at))

    def _fitted(self, request: CommitRequest, state: TableState) -> CommitRequest:
        """The request with what its metadata brings along, if the table's files fit that."""
        if changes_of(request.actions, state).after is state:
            return request
        return fitted(request, state, self._store, base=self._base(request))

    def _must_be_writable(
        self, request: CommitRequest, state: TableState, log: LockedLog | None = None
    ) -> None:
        """Raise `ValidationError` if the table is read-only.

        Whatever makes it so changes its protocol in the same moment: one look a protocol will do.
        """
        if self._writable.get(request.table_id) == state.protocol_version:
            return
        reason = (log or self._store).read_only_reason(request.table_id)
        if reason is not None:
            raise ValidationError(
                f"{request.table_name} is read-only",
                cause=reason,
                remedy="write it with a client that can; docs/adopting.md tells how to get it back",
            )
        self._writable[request.table_id] = state.protocol_version

    # --- what happened meanwhile --------------------------------------------------------

    def _base(self, request: CommitRequest) -> int:
        if request.read_version is not None:
            return request.read_version
        if request.is_blind_append:
            return -1
        head = self._store.head(request.table_id)
        if head is None:
            raise _gone(request)
        return head.version

    def _check_outside(self, request: CommitRequest) -> int:
        """Check against what is committed so far; returns the version that is covered."""
        covered = self._base(request)
        if request.is_blind_append:
            return covered
        state = self._states.current(request.table_id)
        for commit in self._store.commits(request.table_id, after=covered):
            self._check(request, self._state_read(request, state), [commit])
            covered = commit.version
        return covered

    def _check(
        self, request: CommitRequest, state: TableState, commits: Iterable[CommitRecord]
    ) -> None:
        winners = [Winner(item.version, codec.decode_commit(item.body)) for item in commits]
        if winners:
            check_conflicts(Attempt.of(request.actions, request.reads, state), winners, state)

    def _state_read(self, request: CommitRequest, state: TableState) -> TableState:
        version = request.read_version
        if version is None or version >= max(state.metadata_version, state.protocol_version):
            return state
        record = self._store.state(request.table_id, version)
        return state if record is None else record.parsed()

    def _find(self, requests: Sequence[CommitRequest]) -> list[Done] | None:
        """What the requests became, if they were committed.

        Under the lock: a commit that is still on its way is over before we look.
        """
        with self._store.locked([request.table_id for request in requests]) as log:
            found = [log.find_commit(request.table_id, request.commit_id) for request in requests]
        done: list[Done] = [item for item in found if item is not None]
        return done if len(done) == len(requests) else None

    # --- until the answer is known ------------------------------------------------------

    def _until_known(
        self, requests: Sequence[CommitRequest], attempt: Callable[[bool], list[Done]]
    ) -> list[Done]:
        attempt = self._guarded(requests, attempt)
        started = time.monotonic()
        deadline = started + self._timeout
        pause = FIRST_PAUSE
        may_be_in = False
        for number in count(1):
            try:
                done = (self._find(requests) if may_be_in else None) or attempt(may_be_in)
                metrics.COMMIT_LATENCY.observe((time.monotonic() - started) * 1000)
                metrics.VERSIONS_COMMITTED.inc(sum([item.is_new for item in done]))
                tell_done(requests, done, number)
                return done
            except (CommitError, ValidationError, TableError) as error:
                found = self._find_refused(requests) if may_be_in else None
                if found is not None:
                    return found
                if isinstance(error, CommitError):
                    metrics.COMMIT_CONFLICTS.inc()
                tell(logging.INFO, "the commit was refused", requests, number, error)
                raise
            except StoreError as error:
                if _is_lost(error) and not may_be_in:
                    # However long the first answer took not to come: there is time to ask.
                    may_be_in, deadline = True, time.monotonic() + self._timeout
                again = _is_lost(error) or _is_transient(error)
                if not again or time.monotonic() + pause > deadline:
                    if may_be_in:
                        raise _unknown(requests, error) from error
                    raise
                tell(logging.WARNING, "the commit is sent again", requests, number, error)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def _guarded(
        self, requests: Sequence[CommitRequest], attempt: Callable[[bool], list[Done]]
    ) -> Callable[[bool], list[Done]]:
        """The attempt, but not again if another server answers by now that lacks commits which
        the mirror has: this one may be among them, and be taken back into SQL with its files.
        """
        attempts = count()

        def guarded(may_be_in: bool) -> list[Done]:  # noqa: FBT001
            if next(attempts):
                try:
                    self._before_again([request.table_id for request in requests])
                except MirrorError as error:
                    raise _unknown(requests, error) from error
            return attempt(may_be_in)

        return guarded

    def _find_refused(self, requests: Sequence[CommitRequest]) -> list[Done] | None:
        """What a first try did that was still under way when the second was refused, perhaps by it.

        What is not there now never comes: the refusal stands for the first try as well.
        """
        try:
            return self._find(requests)
        except StoreError as lost:
            raise _unknown(requests, lost) from lost


def _checked_proposal(request: CommitRequest, state: TableState, head: int | None) -> Proposal:
    with paused_for(len(request.actions)):
        if request.is_ours:
            check_writable(state.protocol)
        else:
            validate_commit(request.actions, state)
        return propose(request, state, expected_head=head)


def _is_lost(error: StoreError) -> bool:
    return isinstance(error, DatabaseError) and bool(error.details.get("connection_lost"))


def _is_transient(error: StoreError) -> bool:
    return isinstance(error, DatabaseError) and bool(error.details.get("is_transient"))


def _pinned_head(request: CommitRequest) -> int | None:
    return None if request.expected_version is None else request.expected_version - 1


def _pin_must_hold(request: CommitRequest, head: Head) -> None:
    if request.expected_version is not None and head.version != request.expected_version - 1:
        raise VersionConflictError(
            f"{request.table_name}: version {request.expected_version} can't be written",
            cause=f"the table is at version {head.version}",
            remedy="read the table again and decide anew, or commit without expected_version",
            expected=request.expected_version,
            actual=head.version,
        )


def _metadata_must_be_as_read(request: CommitRequest, state: TableState) -> None:
    read = request.read_version
    if read is None or (state.metadata_version <= read and state.protocol_version <= read):
        return
    changes = (
        (MetadataChangedError, "metadata", state.metadata_version),
        (ProtocolChangedError, "protocol", state.protocol_version),
    )
    for error, what, version in changes:
        if version > read:
            raise error(
                f"{request.table_name}: the table's {what} changed",
                cause=f"version {version} changed it; the commit rests on version {read}",
                remedy="read the table again and rerun the operation",
                version=version,
            )


def _txns_must_agree(requests: Sequence[CommitRequest], done: Sequence[Done]) -> None:
    seen = [item for item in done if isinstance(item, TxnSeen)]
    if seen and len(seen) < len(done):
        names = [r.table_name for r, d in zip(requests, done, strict=True) if d in seen]
        raise ConcurrentTransactionError(
            "the transaction was committed to some of its tables already",
            cause=f"the application's txn is in {', '.join(names)} and not in the others",
            remedy="use an application id of its own for each set of tables",
        )


def _done(request: CommitRequest, outcome: object) -> Done:
    if isinstance(outcome, NoTable):
        raise _gone(request)
    if isinstance(outcome, Committed | TxnSeen):
        return outcome
    raise AssertionError(f"unexpected outcome {outcome!r}")


def _gone(request: CommitRequest) -> TableNotFoundError:
    return TableNotFoundError(
        f"{request.table_name} is gone",
        cause="it was dropped and purged",
        remedy="nothing was committed",
    )


def _unknown(requests: Sequence[CommitRequest], error: DeltaSqlError) -> CommitStateUnknownError:
    ids = ", ".join(request.commit_id for request in requests)
    return CommitStateUnknownError(
        f"nobody can say whether commit {ids} succeeded",
        cause=f"the connection was lost after the commit was sent: {error.problem}",
        remedy="when the database is back, look the commit id up in the table's history; "
        "keep the data files until then",
        commit_id=requests[0].commit_id,
    )
