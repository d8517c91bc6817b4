"""A batch of appends as one commit, in which no caller's rows or transaction can fail another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltasql.data.computing.completing import completed_table
from deltasql.errors import (
    CommitError,
    MetadataChangedError,
    ProtocolChangedError,
    StoreError,
)
from deltasql.lake import writing
from deltasql.lake.appending.entries import Entry
from deltasql.spec.actions import Action, Metadata
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from deltasql.lake.table import Table
    from deltasql.log.state import TableState

# If the schema changes during an append, it is read again; more often than this is no accident.
_SCHEMA_RETRIES: Final = 5


def commit(table: Table, entries: Sequence[Entry]) -> None:
    """Commit appends together, and tell each caller the outcome."""
    try:
        with tracing.span("append", table=table.name), table._lake.presence.writing():
            _commit(table, entries)
    except BaseException as error:
        # Catch everything, not only our own errors: nobody may be left waiting.
        for entry in entries:
            entry.fail(error)
        if not isinstance(error, Exception):
            raise


def _commit(table: Table, entries: Sequence[Entry]) -> None:
    attempts = 0
    while entries := [entry for entry in entries if not entry.receipt.done()]:
        state = table._lake.states.current(table.table_id)
        entries = _fitting(entries, state.metadata, table.memory_limit)
        if not entries:
            return
        write = _written(table, state, entries)
        if write is None:
            return
        txns: list[Action] = [entry.txn for entry in entries if entry.txn is not None]
        try:
            done = table.commit_written(write, txns)
        except (MetadataChangedError, ProtocolChangedError):
            attempts += 1
            if attempts == _SCHEMA_RETRIES:
                raise
            table._lake.states.refresh(table.table_id)
            continue
        if done.is_new:
            for entry in entries:
                entry.receipt.set_result(done.version)
            return
        _leave_out_seen(table, entries)


def _fitting(entries: Sequence[Entry], metadata: Metadata, limit: str) -> list[Entry]:
    """The appends whose rows fit the table as it is now; the others are told."""
    kept = []
    for entry in entries:
        if entry.metadata is not metadata:
            try:
                entry.fitted = completed_table(metadata, entry.data, memory_limit=limit)
            except Exception as error:  # noqa: BLE001 - it is this caller's alone
                entry.fail(error)
                continue
            entry.metadata = metadata
        kept.append(entry)
    return kept


def _written(table: Table, state: TableState, entries: Sequence[Entry]) -> writing.Write | None:
    """Write the rows as files; None if the batch had to be divided and was dealt with."""
    rows = entries[0].fitted
    if len(entries) > 1:
        rows = pa.concat_tables([entry.fitted for entry in entries]).combine_chunks()
    try:
        return writing.append_fitted(
            table.objects, state, rows, abandon=table.abandon(state.version)
        )
    except StoreError:
        raise
    except Exception:
        # Only now does a value show up that no file can hold, such as text that is not UTF-8.
        if len(entries) == 1:
            raise
        middle = len(entries) // 2
        for half in (entries[:middle], entries[middle:]):
            try:
                _commit(table, half)
            except Exception as error:  # noqa: BLE001 - the other half has nothing to do with it
                for entry in half:
                    entry.fail(error)
        return None


def _leave_out_seen(table: Table, entries: Sequence[Entry]) -> None:
    """Tell appends whose transaction was committed before; the others go on without them."""
    found = {
        record.app_id: record for record in table._lake.store.txns(table.table_id, table.version)
    }
    seen = 0
    for entry in entries:
        record = None if entry.txn is None else found.get(entry.txn.app_id)
        if entry.txn is not None and record and record.txn_version >= entry.txn.version:
            entry.receipt.set_result(record.version)
            seen += 1
    if not seen:
        raise CommitError(
            f"{table.name}: a transaction that was already recorded is gone",
            cause="in the meantime another commit of the same application set its number back",
            remedy="run only one instance of an application at a time",
        )
