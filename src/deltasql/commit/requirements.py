"""What must hold for a commit, whichever way it takes, and what its answer means."""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.commit.request import CommitRequest
from deltasql.errors import (
    CommitError,
    ConcurrentDeleteDeleteError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
    TableNotFoundError,
    ValidationError,
    VersionConflictError,
)
from deltasql.log.state import TableState
from deltasql.spec.actions import RemoveFile
from deltasql.store.interface import (
    CommitRecord,
    Committed,
    Head,
    LockedLog,
    NoTable,
    TxnSeen,
)
from deltasql.store.rows import key_of

Done = Committed | TxnSeen


def must_be_pinned_at(request: CommitRequest, head: Head) -> None:
    """Raise `VersionConflictError` if a pinned commit would become another version."""
    expected = request.expected_head
    if expected is not None and head.version != expected:
        raise VersionConflictError(
            f"{request.table_name}: version {expected + 1} can't be written",
            cause=f"the table is at version {head.version}",
            remedy="read the table again and decide again, or commit without expected_version",
            expected=expected + 1,
            actual=head.version,
        )


def must_have_been_there(request: CommitRequest, state: TableState) -> None:
    """Raise `ValidationError` if a commit rests on a version that the table does not have yet."""
    read = request.read_version
    if read is not None and read > state.version:
        raise ValidationError(
            f"{request.table_name}: version {read} can't have been read",
            cause=f"the table is at version {state.version}",
            remedy="pass the version of the snapshot that the commit is based on as read_version",
        )


def must_be_unexpired(
    request: CommitRequest, unseen: Sequence[CommitRecord], *, after: int
) -> None:
    """Raise `CommitError` if commits that a commit has to be checked against have expired."""
    if unseen and unseen[0].version > after + 1 >= 1:
        raise CommitError(
            f"{request.table_name}: what happened since version {after} is no longer known",
            cause=f"the versions before {unseen[0].version} have expired",
            remedy="read the table again and rerun the operation",
            version=unseen[0].version,
        )


def metadata_must_be_as_read(request: CommitRequest, state: TableState) -> None:
    """Raise if metadata or protocol changed after the version that a commit rests on."""
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
                cause=f"version {version} changed it; the commit is based on version {read}",
                remedy="read the table again and rerun the operation",
                version=version,
            )


def named_removes_must_be_live(request: CommitRequest, log: LockedLog) -> None:
    """Raise `ConcurrentDeleteDeleteError` if a caller removes a file that the table has no more.

    Its rows may be in other files by now: what the commit adds in its place would be there twice.
    A file that the table never had is another matter: the log keeps what it is told of it.
    """
    if not request.names_removes:
        return
    removes = [item for item in request.actions if type(item) is RemoveFile]
    head = log.heads[request.table_id].version
    # After the head nothing was removed: these are the live ones.
    live = log.known_files(request.table_id, {item.path for item in removes}, after=head)
    gone = [item for item in removes if (key_of(item.path), key_of(item.dv_id)) not in live]
    if not gone:
        return
    known = log.known_files(request.table_id, {item.path for item in gone}, after=-1)
    had = {path_key for path_key, _ in known}
    for item in gone:
        if key_of(item.path) in had:
            raise ConcurrentDeleteDeleteError(
                f"{request.table_name}: {item.path!r:.200} can't be removed",
                cause="it was removed or changed before: it is not in the table any more, or not "
                f"with this deletion vector{' ' + item.dv_id if item.dv_id else ''}",
                remedy="read the table again and decide again; pass the version that was read as "
                "read_version",
                version=head,
                path=item.path,
            )


def txns_must_agree(requests: Sequence[CommitRequest], done: Sequence[Done]) -> None:
    """Raise if an application's txn is in some of its tables but not in the others."""
    seen = [item for item in done if isinstance(item, TxnSeen)]
    if seen and len(seen) < len(done):
        names = [r.table_name for r, d in zip(requests, done, strict=True) if d in seen]
        raise ConcurrentTransactionError(
            "the transaction is already committed to some of its tables",
            cause=f"the application's txn is in {', '.join(names)} and not in the others",
            remedy="use a separate application id for each set of tables",
        )


def answered(request: CommitRequest, outcome: object) -> Done:
    """What a commit became; the loop has dealt with every other outcome."""
    if isinstance(outcome, NoTable):
        raise table_gone(request)
    if isinstance(outcome, Committed | TxnSeen):
        return outcome
    raise AssertionError(f"unexpected outcome {outcome!r}")


def table_gone(request: CommitRequest) -> TableNotFoundError:
    """The error for a table without a head."""
    return TableNotFoundError.named(
        request.table_name, cause="it was dropped", remedy="nothing was committed"
    )
