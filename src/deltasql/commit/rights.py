"""Whether this client may commit at all, asked before it writes files in vain."""

from __future__ import annotations

from deltasql.errors import DatabaseError
from deltasql.store.interface import LogStore


class CommitRights:
    """Asks the database once; a refusal is asked again, since rights can be granted any time."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._may_commit = False

    def check(self) -> None:
        """Raise `DatabaseError` if the database would refuse every commit of ours."""
        if self._may_commit:
            return
        if not self._store.may_commit():
            raise DatabaseError(
                "permission denied: this role can't commit",
                cause="it may read the log's tables but not write them; nothing was written",
                remedy="connect as a role that may write; deltasql db grants prints what it needs",
                is_refusal=True,
            )
        self._may_commit = True
