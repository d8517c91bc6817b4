"""Metadata and protocol of tables, cached as long as they are current."""

from __future__ import annotations

from deltasql.commit.request import CommitRequest
from deltasql.errors import TableNotFoundError
from deltasql.log.state import TableState
from deltasql.store.interface import Committed, StateRecord, TxnLogReader


class StateCache:
    """The newest known state of each table.

    It may be stale without harm: the database refuses a proposal that was checked against
    other metadata than its own, and the loop then asks again.
    """

    def __init__(self, reader: TxnLogReader) -> None:
        self._reader = reader
        self._states: dict[int, TableState] = {}

    def current(self, table_id: int) -> TableState:
        """The state as last seen."""
        state = self._states.get(table_id)
        return state if state is not None else self.refresh(table_id)

    def refresh(self, table_id: int) -> TableState:
        """The state as it is now."""
        record = self._reader.state(table_id)
        if record is None:
            raise TableNotFoundError(
                f"table {table_id} is gone",
                cause="it was dropped",
                remedy="look it up again by its name",
            )
        return self.remember(table_id, record)

    def forget(self, table_id: int) -> None:
        """Read the state anew when it is next needed."""
        self._states.pop(table_id, None)

    def advance(
        self, request: CommitRequest, state: TableState, outcome: object, *, is_retry: bool
    ) -> None:
        """Keep the state for the version of a commit, which the database has checked against it.

        The next commit that rests on a version rests on this one, and need not ask whether there is
        such a version. A retry may have found a commit that was checked against another state.
        """
        if request.read_version is None or is_retry or not isinstance(outcome, Committed):
            return
        # Another thread may know a newer one.
        is_newest = self._states.get(request.table_id) is state
        if is_newest and outcome.version > state.version:
            later = state.at(outcome.version, outcome.in_commit_timestamp)
            self._states[request.table_id] = later

    def remember(self, table_id: int, record: StateRecord) -> TableState:
        """Keep a state that was read elsewhere."""
        state = record.parsed()
        self._states[table_id] = state
        return state
