"""What the log file says about a commit, under the commit's id."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from deltasql.commit.request import CommitRequest
from deltasql.store.interface import Committed, TxnSeen

logger = logging.getLogger("deltasql.commit")


def log_done(
    requests: Sequence[CommitRequest], done: Sequence[Committed | TxnSeen], attempt: int
) -> None:
    """Log which versions were committed."""
    if not logger.isEnabledFor(logging.INFO):
        return
    for request, item in zip(requests, done, strict=True):
        logger.info(
            "committed" if item.is_new else "committed before",
            extra={**_facts(request), "version": item.version, "attempt": attempt},
        )


def log_created(request: CommitRequest, attempt: int) -> None:
    """Log that a table's version 0 was committed."""
    logger.info("committed", extra={**_facts(request), "version": 0, "attempt": attempt})


def after_commit(what: str, *names: str) -> AfterCommit:
    """A block that follows a commit, which it can't undo: its failures are only logged."""
    return AfterCommit(what, names)


# A class, because a generator costs a small commit three times as much.
class AfterCommit:
    """The block of `after_commit`."""

    __slots__ = ("_names", "_what")

    def __init__(self, what: str, names: Sequence[str]) -> None:
        self._what = what
        self._names = names

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        # Whatever it is, the commit stands; Ctrl-C goes on.
        if not isinstance(error, Exception):
            return False
        names = ", ".join(self._names)
        message = "%s: committed, but %s failed afterwards: %s"
        facts = {"table": names, "error": error}
        logger.warning(message, names, self._what, error, extra=facts)
        return True


def tell(
    level: int, what: str, requests: Sequence[CommitRequest], attempt: int, error: Exception
) -> None:
    """Log the outcome of an attempt that failed."""
    if logger.isEnabledFor(level):
        for request in requests:
            logger.log(level, what, extra={**_facts(request), "attempt": attempt, "error": error})


def told(requests: Sequence[CommitRequest]) -> dict[str, object]:
    """What a span says of a commit to one table or several."""
    return {
        "table": [request.table_name for request in requests],
        "commit_id": requests[0].txn_id,
        "operation": [request.operation for request in requests],
    }


def _facts(request: CommitRequest) -> dict[str, object]:
    return {
        "table": request.table_name,
        "table_id": request.table_id or None,
        "commit_id": request.txn_id,
        "operation": request.operation,
    }
