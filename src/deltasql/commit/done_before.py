"""What became of commits that were sent before: asked after a lost answer or a conflict."""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.commit.request import CommitRequest
from deltasql.commit.requirements import Done
from deltasql.spec.actions import Txn
from deltasql.store.interface import LogStore, TxnSeen


def find_commits(store: LogStore, requests: Sequence[CommitRequest]) -> list[Done] | None:
    """What the requests became, if they were committed.

    Asked under the lock: a commit that was still on its way has ended before we look.
    """
    with store.locked([request.table_id for request in requests]) as log:
        found = [log.find_commit(request.table_id, request.commit_id) for request in requests]
    done: list[Done] = [item for item in found if item is not None]
    return done if len(done) == len(requests) else None


def find_txns(store: LogStore, requests: Sequence[CommitRequest]) -> list[Done] | None:
    """The versions that hold the requests' application transactions, if all exist."""
    found: list[Done] = []
    for request in requests:
        head = store.head(request.table_id)
        wanted = {item.app_id: item.version for item in request.actions if type(item) is Txn}
        if head is None or not wanted:
            return None
        holding = [
            record.version
            for record in store.txns(request.table_id, head.version)
            if record.txn_version >= wanted.get(record.app_id, record.txn_version + 1)
        ]
        if not holding:
            return None
        found.append(TxnSeen(max(holding)))
    return found
