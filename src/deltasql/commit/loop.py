"""Every commit goes through here: checked, sent, and looked up if need be (see `certainty`).

A blind append is sent as it is and can't lose. A commit that read or removed something is checked
against the commits it did not see, first outside the lock, and tried once; if it lost, it is
checked again under the lock, where it can't lose: so it never starves beside appenders. After a
lost answer a commit is looked up by its id; so is the creation of a table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from deltasql.commit.certainty import Known, Sending, nothing_sent, unknown, until_known
from deltasql.commit.collector import paused_for
from deltasql.commit.commit_logging import log_created, log_done
from deltasql.commit.done_before import find_commits, find_txns
from deltasql.commit.drafting import DraftedCommit, draft_large, locked_after
from deltasql.commit.metadata_changes import changes_of, clock_for, fitted, settled, write_at
from deltasql.commit.rebasing import ConflictUnderLockError, Rebaser
from deltasql.commit.request import CommitRequest, propose
from deltasql.commit.requirements import (
    Done,
    answered,
    metadata_must_be_as_read,
    must_be_pinned_at,
    must_be_unexpired,
    must_have_been_there,
    named_removes_must_be_live,
    table_gone,
    txns_must_agree,
)
from deltasql.commit.rights import CommitRights
from deltasql.commit.states import StateCache
from deltasql.errors import CommitError, MirrorError, ValidationError
from deltasql.log.conflict import Winner
from deltasql.log.state import TableState
from deltasql.log.validation.commits import validate_commit
from deltasql.spec import codec
from deltasql.store.interface import (
    CommitRecord,
    LockedLog,
    LogStore,
    NameTaken,
    VersionTaken,
)
from deltasql.telemetry import metrics

# How often a conflict found under the lock is resolved outside of it, since that may take long.
_TRIES_IN_HASTE = 2


class CommitLoop:
    """Commits requests to a store, whatever the network does meanwhile."""

    def __init__(
        self,
        store: LogStore,
        states: StateCache,
        *,
        timeout: float,
        rebaser: Rebaser,
        before_again: Callable[[Iterable[int]], None] = lambda _: None,
    ) -> None:
        """`before_again` may raise `MirrorError` to keep a commit from being sent again."""
        self._before_again = before_again
        self._rebaser = rebaser
        self.rights = CommitRights(store)
        self._store = store
        self._states = states
        self._timeout = timeout
        # By table: the protocol under which it was last found to be writable.
        self._writable: dict[int, int] = {}

    def commit(self, request: CommitRequest) -> Done:
        """Commit to one table."""
        # Read before anything is sent: a failure here is not a lost answer.
        self._states.current(request.table_id)
        (done,) = self._until_known(
            [request],
            lambda is_retry: [self._commit_one(request, is_retry=is_retry)],
            arrives_late=self._store.commits_arrive_late,
        )
        return done

    def commit_all(
        self,
        requests: Sequence[CommitRequest],
        *,
        inside: Callable[[LockedLog], None] | None = None,
    ) -> list[Done]:
        """Commit to several tables, all or nothing; `inside` joins the same transaction."""

        def attempt(_: bool) -> list[Done]:  # noqa: FBT001
            with nothing_sent():
                # Read anew: what this process remembers of the tables may be outdated.
                ready = [self._check_outside(self._ready(request)) for request in requests]
            return self._commit_locked(ready, inside=inside)

        return self._until_known(requests, attempt)

    def commit_with(
        self, requests: Sequence[CommitRequest], write: Callable[[LockedLog], list[Done]]
    ) -> list[Done]:
        """Commit, under the requests' ids, what `write` makes of the tables under their lock."""

        def attempt(_: bool) -> list[Done]:  # noqa: FBT001
            with self._store.locked({request.table_id for request in requests}) as log:
                return write(log)

        return self._until_known(requests, attempt)

    def create(self, request: CommitRequest, location: str) -> int | None:
        """Create a table with its version 0; its id, or None when the name is taken.

        A table whose version 0 has the request's commit id is ours, whatever happened to it since.
        """
        proposal = propose(request, None)

        def attempt(is_retry: bool) -> int | NameTaken:  # noqa: FBT001
            return self._store.create_table(
                request.table_name,
                location,
                proposal,
                is_retry=is_retry,
                sources=request.sources or {},
            )

        # There is no head to lock yet, so only another attempt can tell: it waits for the name,
        # which the first one holds while it is under way.
        sending = Sending(requests=[request], attempt=attempt, find=lambda: None, arrives_late=True)
        known = until_known(sending, timeout=self._timeout)
        if isinstance(known.answer, NameTaken):
            return None
        log_created(request, known.attempts)
        return known.answer

    # --- one attempt ------------------------------------------------------------------

    def _commit_one(self, request: CommitRequest, *, is_retry: bool) -> Done:
        state = self._states.current(request.table_id)
        if request.read_version is not None and request.read_version > state.version:
            with nothing_sent():
                state = self._states.refresh(request.table_id)
            must_have_been_there(request, state)
        # Checked anew after each refusal: a check may have become necessary meanwhile.
        while request.is_blind_to(state):
            metadata_must_be_as_read(request, state)
            self._must_be_writable(request, state)
            with paused_for(len(request.actions)):
                validate_commit(request.actions, state, dropping=request.dropping)
                proposal = propose(request, state, expected_head=request.expected_head)
            outcome = self._store.commit(proposal, is_retry=is_retry)
            if not isinstance(outcome, VersionTaken):
                self._states.advance(request, state, outcome, is_retry=is_retry)
                return answered(request, outcome)
            must_be_pinned_at(request, outcome.head)
            state = self._states.refresh(request.table_id)
        return self._commit_checked(request, is_retry=is_retry)

    def _commit_checked(self, request: CommitRequest, *, is_retry: bool) -> Done:
        with nothing_sent():
            state = self._states.refresh(request.table_id)
            must_have_been_there(request, state)
            metadata_must_be_as_read(request, state)
            self._must_be_writable(request, state)
            validate_commit(request.actions, state, dropping=request.dropping)
            request = self._fitted(request, state)
            needs_lock = changes_of(request.actions, state).need_lock or request.names_removes
            checked = self._base(request)
            if not needs_lock:
                request, checked = self._check_outside(request)
        if not needs_lock:
            head = checked if request.expected_head is None else request.expected_head
            with paused_for(len(request.actions)):
                proposal = propose(request, state, expected_head=head)
            outcome = self._store.commit(proposal, is_retry=is_retry)
            if not isinstance(outcome, VersionTaken):
                return answered(request, outcome)
        (done,) = self._commit_locked([(request, checked)])
        return done

    def _commit_locked(
        self,
        checked: Sequence[tuple[CommitRequest, int]],
        *,
        inside: Callable[[LockedLog], None] | None = None,
    ) -> list[Done]:
        """Commit requests, each given with the version up to which it was checked."""
        for _ in range(_TRIES_IN_HASTE):
            try:
                return self._commit_under_lock(checked, in_haste=True, inside=inside)
            except ConflictUnderLockError:
                with nothing_sent():
                    checked = [self._check_outside(*item) for item in checked]
        return self._commit_under_lock(checked, in_haste=False, inside=inside)

    def _commit_under_lock(
        self,
        checked: Sequence[tuple[CommitRequest, int]],
        *,
        in_haste: bool,
        inside: Callable[[LockedLog], None] | None,
    ) -> list[Done]:
        requests = [request for request, _ in checked]
        with nothing_sent():
            # Asked before the lock is taken: under it there may be no connection left to ask on.
            now = clock_for(self._store, requests, self._states.current)
            drafts = draft_large(self._store, requests, self._states.current)
        with locked_after(self._store, requests, drafts) as log:
            done = [
                self._write(log, item, version, now, drafts.get(item.table_id), in_haste=in_haste)
                for item, version in checked
            ]
            txns_must_agree(requests, done)
            # What was committed before is not done again, and neither is what went with it.
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
        *,
        in_haste: bool,
    ) -> Done:
        head = log.heads.get(request.table_id)
        if head is None:
            raise table_gone(request)
        must_be_pinned_at(request, head)
        state = self._states.current(request.table_id)
        if (state.metadata_version, state.protocol_version) != (
            head.metadata_version,
            head.protocol_version,
        ):
            state = self._states.remember(request.table_id, log.state(request.table_id))
        metadata_must_be_as_read(request, state)
        # Asked on this connection: while the heads are locked there may be no other.
        self._must_be_writable(request, state, log)
        if not request.is_blind_append:
            # The metadata is as it was read, so the check needs no other state.
            winners = log.commits(request.table_id, after=checked)
            must_be_unexpired(request, winners, after=checked)
            given = request
            request = self._check(given, state, winners, log, in_haste=in_haste)
            drafted = drafted if request is given else None
            named_removes_must_be_live(request, log)
        ready = drafted.following(head) if drafted is not None else None
        if ready is not None:
            return answered(request, log.write(ready))
        validate_commit(request.actions, state, dropping=request.dropping)
        actions, at = settled(request.actions, state, head=head, log=log, now=now)
        with paused_for(len(actions)):
            proposal = propose(request, state, actions=actions, expected_head=head.version)
        return answered(request, write_at(log, proposal, at))

    def _ready(self, request: CommitRequest) -> CommitRequest:
        """The request, checked against the table as it is now, with what its metadata requires."""
        state = self._states.refresh(request.table_id)
        must_have_been_there(request, state)
        metadata_must_be_as_read(request, state)
        validate_commit(request.actions, state, dropping=request.dropping)
        return self._fitted(request, state)

    def _fitted(self, request: CommitRequest, state: TableState) -> CommitRequest:
        """The request with what its metadata brings along, if the table's files fit that."""
        if changes_of(request.actions, state).after is state:
            return request
        return fitted(request, state, self._store, base=self._base(request))

    def _must_be_writable(
        self, request: CommitRequest, state: TableState, log: LockedLog | None = None
    ) -> None:
        """Raise `ValidationError` if the table is read-only."""
        # What makes it read-only changes its protocol, too: one look per protocol is enough.
        if self._writable.get(request.table_id) == state.protocol_version:
            return
        reason = (log or self._store).read_only_reason(request.table_id)
        if reason is not None:
            raise ValidationError(
                f"{request.table_name} is read-only",
                cause=reason,
                remedy="write it with a client that can; docs/adopting.md explains how to get it "
                "back",
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
            raise table_gone(request)
        return head.version

    def _check_outside(
        self, request: CommitRequest, covered: int | None = None
    ) -> tuple[CommitRequest, int]:
        """The request as it may follow everything committed so far, and the version of that.

        `covered` is the version up to which it was checked before.
        """
        if covered is None:
            covered = self._base(request)
        if request.is_blind_append:
            return request, covered
        state = self._states.current(request.table_id)
        for commit in self._store.commits(request.table_id, after=covered):
            must_be_unexpired(request, [commit], after=covered)
            request = self._check(request, self._state_read(request, state), [commit])
            covered = commit.version
        return request, covered

    def _check(
        self,
        request: CommitRequest,
        state: TableState,
        commits: Iterable[CommitRecord],
        log: LockedLog | None = None,
        *,
        in_haste: bool = False,
    ) -> CommitRequest:
        """The request as it may follow the commits; raises the conflict if it may not."""
        winners = [Winner(item.version, codec.decode_commit(item.body)) for item in commits]
        if not winners:
            return request
        return self._rebaser.after(request, winners, state, log, in_haste=in_haste)

    def _state_read(self, request: CommitRequest, state: TableState) -> TableState:
        version = request.read_version
        if version is None or version >= max(state.metadata_version, state.protocol_version):
            return state
        record = self._store.state(request.table_id, version)
        return state if record is None else record.parsed()

    # --- until the answer is known ------------------------------------------------------

    def _until_known(
        self,
        requests: Sequence[CommitRequest],
        attempt: Callable[[bool], list[Done]],
        *,
        arrives_late: bool = False,
    ) -> list[Done]:
        attempt = self._guarded(requests, attempt)

        def attempt_once(is_retry: bool) -> list[Done]:  # noqa: FBT001
            try:
                return attempt(is_retry)
            except CommitError:
                # A commit that happened before is no conflict: it is skipped, whatever came after
                # it.
                done = (find_commits(self._store, requests) if is_retry else None) or find_txns(
                    self._store, requests
                )
                if done is None:
                    raise
                return done

        started = time.monotonic()
        sending = Sending(
            requests=requests,
            attempt=attempt_once,
            find=lambda: find_commits(self._store, requests),
            arrives_late=arrives_late,
        )
        known: Known[list[Done]] = until_known(sending, timeout=self._timeout)
        metrics.COMMIT_LATENCY.observe((time.monotonic() - started) * 1000)
        metrics.VERSIONS_COMMITTED.inc(sum([item.is_new for item in known.answer]))
        log_done(requests, known.answer, known.attempts)
        return known.answer

    def _guarded(
        self, requests: Sequence[CommitRequest], attempt: Callable[[bool], list[Done]]
    ) -> Callable[[bool], list[Done]]:
        """The attempt, but not repeated if the server that answers now lacks commits that the
        mirror has: this one may be among them, and be taken back into SQL with its files.
        """
        attempts = count()

        def guarded(is_retry: bool) -> list[Done]:  # noqa: FBT001
            if next(attempts):
                try:
                    self._before_again([request.table_id for request in requests])
                except MirrorError as error:
                    raise unknown(requests, error) from error
            return attempt(is_retry)

        return guarded
