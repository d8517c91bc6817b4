"""Whether a commit may still be made after others were faster: Delta's rules, as a predicate.

What I read and do (`Attempt`) meets who won (`Winner`); the answer is the error to raise, or None.
Nothing here reads a log or holds a lock.

WriteSerializable, the default, lets a commit be ordered before blind appends that it did not see;
Serializable does not. Rows that merely move to other files (dataChange=false) are no change to
anyone who read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from deltasql.errors import (
    CommitError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from deltasql.log.contenders import Attempt, FileKey, Reads, Winner
from deltasql.log.pruning.files import Pruner
from deltasql.log.state import SERIALIZABLE, TableState
from deltasql.spec.actions import AddFile, DomainMetadata, Metadata, Protocol, RemoveFile, Txn

__all__ = ["Attempt", "FileKey", "Reads", "Winner", "find_conflict"]

FilesRead: TypeAlias = Callable[[], frozenset[FileKey]]

_RERUN = "run the operation again; it will see the newer version"


def find_conflict(
    attempt: Attempt,
    winner: Winner,
    state: TableState,
    *,
    files_read: FilesRead | None = None,
) -> CommitError | None:
    """Why `attempt`, which read the table at `state`, can't follow `winner`; None if it can.

    `files_read` is asked, at most once for each winner, which files the predicate had matched, if
    the answer is neither in the attempt nor in the winner's actions.
    """
    return (
        _protocol_changed(winner)
        or _metadata_changed(winner)
        or _same_domain_changed(attempt, winner)
        or _same_application_committed(attempt, winner)
        or _rows_appeared_where_i_read(attempt, winner, state)
        or _rows_i_read_went_away(attempt, winner, state, files_read)
        or _file_i_remove_was_removed(attempt, winner)
        or _file_i_restate_was_removed(attempt, winner)
    )


def _protocol_changed(winner: Winner) -> CommitError | None:
    if not winner.all_of(Protocol):
        return None
    return ProtocolChangedError(
        f"{winner} changed the table's protocol",
        cause="the commit was prepared for the protocol before it",
        remedy=_RERUN,
        version=winner.version,
    )


def _metadata_changed(winner: Winner) -> CommitError | None:
    if not winner.all_of(Metadata):
        return None
    return MetadataChangedError(
        f"{winner} changed the table's metadata",
        cause="schema, partitioning or properties are no longer those the commit was made for",
        remedy=_RERUN,
        version=winner.version,
    )


def _same_domain_changed(attempt: Attempt, winner: Winner) -> CommitError | None:
    domains = attempt.domains.intersection(d.domain for d in winner.all_of(DomainMetadata))
    if not domains:
        return None
    domain = min(domains)
    return MetadataChangedError(
        f"{winner} changed the domain {domain!r:.80}",
        cause="this commit changes it, too, without having seen that",
        remedy=_RERUN,
        version=winner.version,
        domain=domain,
    )


def _same_application_committed(attempt: Attempt, winner: Winner) -> CommitError | None:
    app_ids = attempt.app_ids.intersection(txn.app_id for txn in winner.all_of(Txn))
    if not app_ids:
        return None
    app_id = min(app_ids)
    return ConcurrentTransactionError(
        f"{winner} is a transaction of the application {app_id!r:.80}, as this one is",
        cause="two instances of one application or stream write at once",
        remedy="run only one of them; a restarted stream continues by itself",
        version=winner.version,
        app_id=app_id,
    )


def _rows_appeared_where_i_read(
    attempt: Attempt, winner: Winner, state: TableState
) -> CommitError | None:
    if attempt.only_rearranges or attempt.reads.is_nothing:
        return None
    # Files of the old schema must not slip in beside new metadata, whoever wrote them and why.
    strict = attempt.has_metadata or attempt.has_protocol
    if winner.is_blind_append and attempt.isolation != SERIALIZABLE and not strict:
        return None
    adds = [add for add in winner.all_of(AddFile) if add.data_change or strict]
    add = _first_match(attempt.reads, adds, state)
    if add is None:
        return None
    return ConcurrentAppendError(
        f"{winner} added files to what this transaction read",
        cause=f"{_place(add)} may hold rows it should have seen",
        remedy=_RERUN,
        version=winner.version,
        path=add.path,
    )


def _rows_i_read_went_away(
    attempt: Attempt, winner: Winner, state: TableState, files_read: FilesRead | None
) -> CommitError | None:
    if attempt.reads.is_nothing:
        return None
    strict = attempt.has_metadata or attempt.has_protocol
    removes = [remove for remove in winner.all_of(RemoveFile) if remove.data_change or strict]
    remove = _first_read(attempt.reads, removes, state, files_read)
    if remove is None:
        return None
    return ConcurrentDeleteReadError(
        f"{winner} removed a file that this transaction read",
        cause=f"the rows of {_place(remove)} are gone or changed",
        remedy=_RERUN,
        version=winner.version,
        path=remove.path,
    )


def _file_i_remove_was_removed(attempt: Attempt, winner: Winner) -> CommitError | None:
    # By path alone: a file with a new deletion vector is another logical file already.
    for remove in winner.all_of(RemoveFile):
        if remove.path in attempt.removed:
            return ConcurrentDeleteDeleteError(
                f"{winner} removed a file that this transaction removes",
                cause=f"{_place(remove)} is no longer in the table as it was read",
                remedy=_RERUN,
                version=winner.version,
                path=remove.path,
            )
    return None


def _file_i_restate_was_removed(attempt: Attempt, winner: Winner) -> CommitError | None:
    for remove in winner.all_of(RemoveFile):
        if remove.path in attempt.added:
            return ConcurrentDeleteReadError(
                f"{winner} removed a file that this transaction adds again",
                cause=f"adding {_place(remove)} would bring its rows back",
                remedy=_RERUN,
                version=winner.version,
                path=remove.path,
            )
    return None


# --- matching files with what was read ------------------------------------------------


def _first_match(reads: Reads, adds: Sequence[AddFile], state: TableState) -> AddFile | None:
    if not adds or reads.everything:
        return adds[0] if adds else None
    if reads.predicate is None:
        return None
    pruner = Pruner(reads.predicate, state.schema, state.partition_columns)
    for add in adds:
        if pruner.may_match(partition_values=add.partition_values, stats=add.stats):
            return add
    return None


def _first_read(
    reads: Reads, removes: Sequence[RemoveFile], state: TableState, files_read: FilesRead | None
) -> RemoveFile | None:
    if not removes or reads.everything:
        return removes[0] if removes else None
    files = reads.files
    if files is None and reads.predicate is not None:
        # A remove has no stats, so its partition values, if any, are all there is to go by.
        pruner = Pruner(reads.predicate, state.schema, state.partition_columns)
        removes = [
            remove
            for remove in removes
            if remove.partition_values is None
            or pruner.may_match(partition_values=remove.partition_values, stats=remove.stats)
        ]
        if not removes or files_read is None:
            return removes[0] if removes else None
        files = files_read()
    paths = {path for path, _ in files or ()}
    return next((remove for remove in removes if remove.path in paths), None)


def _place(file: AddFile | RemoveFile) -> str:
    values = file.partition_values or {}
    where = ", ".join(f"{name:.80}={value!s:.80}" for name, value in values.items())
    return f"{file.path!r:.200}" + (f" in {where}" if where else "")
