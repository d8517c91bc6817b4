"""What the log file hears of a commit, under the commit's id."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from deltasql.commit.request import CommitRequest
from deltasql.store.interface import Committed, TxnSeen

logger = logging.getLogger("deltasql.commit")


def tell_done(
    requests: Sequence[CommitRequest], done: Sequence[Committed | TxnSeen], attempt: int
) -> None:
    """Say which versions were committed."""
    if not logger.isEnabledFor(logging.INFO):
        return
    for request, item in zip(requests, done, strict=True):
        logger.info(
            "committed" if item.is_new else "committed before",
            extra={**_facts(request), "version": item.version, "attempt": attempt},
        )


def tell_created(request: CommitRequest) -> None:
    """Say that a table's version 0 was committed."""
    logger.info("committed", extra={**_facts(request), "version": 0, "attempt": 1})


def tell(
    level: int, what: str, requests: Sequence[CommitRequest], attempt: int, error: Exception
) -> None:
    """Say what became of an attempt that failed."""
    if logger.isEnabledFor(level):
        for request in requests:
            logger.log(level, what, extra={**_facts(request), "attempt": attempt, "error": error})


def _facts(request: CommitRequest) -> dict[str, object]:
    return {
        "table": request.table_name,
        "commit_id": request.txn_id,
        "operation": request.operation,
    }
