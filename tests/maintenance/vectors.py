"""Rows deleted by their positions, as a writer of deletion vectors would."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltasql.data.reading.deletion import deleted_rows
from deltasql.data.reading.reader import read_files
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.log.removal import removes, rewritten
from deltasql.spec.actions import Action, AddFile
from deltasql.spec.deletion_vectors import inline

VECTORS = {"delta.enableDeletionVectors": "true"}


def ids_of(table: Table, snapshot: Snapshot, add: AddFile) -> list[int]:
    """The ids in a file, deleted ones included, in their order."""
    state = snapshot.state
    whole = replace(add, deletion_vector=None)
    batches = read_files(
        table.objects,
        [whole],
        schema=state.schema,
        partition_columns=state.partition_columns,
        column_mapping=state.column_mapping,
        columns=["id"],
    )
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def marking(table: Table, snapshot: Snapshot, gone: Iterable[int]) -> list[Action]:
    """The actions that delete the rows of some ids by deletion vectors."""
    wanted, actions = set(gone), []
    for add in snapshot.adds():
        found = ids_of(table, snapshot, add)
        vector = add.deletion_vector
        old = set()
        if vector is not None:
            old = set(deleted_rows(table.objects, vector, rows=len(found), path=add.path))
        new = {place for place, value in enumerate(found) if value in wanted} - old
        if not new:
            continue
        actions += removes(rewritten([add]), deletion_timestamp=1)
        if len(old | new) < len(found):
            actions.append(replace(add, deletion_vector=inline(old | new), data_change=True))
    return actions


def delete_marked(
    table: Table, *gone: int, at: Snapshot | None = None, operation: str = "DELETE"
) -> int:
    """Delete the rows of some ids, as a snapshot shows them, by deletion vectors."""
    snapshot = at or table.snapshot()
    where = f"id IN ({', '.join(map(str, gone))})"
    actions = marking(table, snapshot, gone)
    if not actions:
        return snapshot.version
    return table.commit(actions, operation, read_version=snapshot.version, reads=where)
