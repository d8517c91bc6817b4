"""The columns of a version's row that repeat its commit, compared with its commitInfo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain, pairwise
from typing import Any, Final

from deltasql.errors import DeltaSqlError
from deltasql.integrity.commits import decoded
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import CommitInfo, Metadata, Protocol
from deltasql.store.checking.interface import StoredCommit

_OURS: Final = "deltasql/"


def with_next_time(commits: Iterable[StoredCommit]) -> Iterator[tuple[StoredCommit, int | None]]:
    """Each version, and the time of the one after it."""
    ending: Iterable[StoredCommit | None] = chain(commits, [None])
    for commit, after in pairwise(ending):
        if commit is not None:
            yield commit, None if after is None else after.in_commit_timestamp


def as_committed(
    commit: StoredCommit,
    metadata: Metadata | None,
    protocol: Protocol | None,
    *,
    next_time: int | None = None,
) -> StoredCommit:
    """A version with its columns as its commitInfo has them, as far as it does.

    Metadata and protocol are those that the commit leaves. Other writers' commitInfo does not
    decide about ids, parameters, and whether anything was read. Their times may go back from one
    version to the next: adoption has brought them into order, each below the next one's.
    """
    info = _info(commit)
    told: dict[str, Any] = {}
    is_adopted = commit.commit_id == f"adopted-{commit.version}"
    if info.in_commit_timestamp is not None and _has_times(metadata, protocol):
        time = info.in_commit_timestamp
        if is_adopted and next_time is not None:
            time = min(time, next_time - 1)
        told["in_commit_timestamp"] = time
    if info.operation is not None:
        told["operation"] = _storable(info.operation)
    if info.user_name is not None:
        told["committer"] = _storable(info.user_name)
    if (info.engine_info or "").startswith(_OURS):
        if info.is_blind_append is not None:
            told["is_blind_append"] = info.is_blind_append
        given = dict(info.operation_parameters or {})
        if _loaded(commit.operation_params) != given:
            told["operation_params"] = codec.dumps(given).decode()
        if info.txn_id is not None and not is_adopted:
            told |= _ids(commit, info.txn_id)
    return replace(commit, **told)


def differing(commit: StoredCommit, told: StoredCommit) -> list[str]:
    """The names of the columns that differ from what was committed."""
    names = (item.name for item in fields(StoredCommit))
    return [name for name in names if getattr(commit, name) != getattr(told, name)]


def _info(commit: StoredCommit) -> CommitInfo:
    source = f"version {commit.version}"
    found = decoded(commit.body, source, having=b'"commitInfo"')
    return next((item for item in found if isinstance(item, CommitInfo)), CommitInfo())


def _ids(commit: StoredCommit, txn_id: str) -> dict[str, str | None]:
    """A commit is known by its transaction's id, or by its own if it belonged to none."""
    if commit.transaction_id is None:
        return {"commit_id": txn_id}
    return {"transaction_id": None if commit.commit_id == txn_id else txn_id}


def _has_times(metadata: Metadata | None, protocol: Protocol | None) -> bool:
    """Whether a commit's time is its in-commit timestamp."""
    if metadata is None or protocol is None:
        return False
    return TableState(
        version=0,
        in_commit_timestamp=0,
        metadata=metadata,
        metadata_version=0,
        protocol=protocol,
        protocol_version=0,
    ).in_commit_timestamps


def _storable(text: str) -> str:
    """The text as adoption stores it: no database accepts NUL in a text."""
    return text.replace("\0", "\ufffd")


def _loaded(params: str | None) -> Any:
    try:
        return {} if params is None else codec.loads(params)
    except DeltaSqlError:
        return None
