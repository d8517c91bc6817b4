"""Rows that a transaction has written and that have no ids yet: they get them when it commits.

Delta does not read files without row ids from a table with row tracking. So it gets temporary ids
that no row will ever have, and whatever would write them to a file is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltasql.spec.actions import Action, AddFile, RemoveFile

# Above every assigned id, so that the commit assigns new ones.
_FIRST = 2**52
_ROWS_PER_FILE = 2**32


def with_row_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The files, each with a first row id."""
    ids = batch.column("base_row_id").to_pylist()
    if None not in ids:
        return batch
    found = [
        _FIRST + number * _ROWS_PER_FILE if value is None else value
        for number, value in enumerate(ids)
    ]
    versions = batch.column("default_row_commit_version").to_pylist()
    columns = {
        "base_row_id": found,
        "default_row_commit_version": [0 if value is None else value for value in versions],
    }
    for name, values in columns.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(
            place, batch.schema.field(place), pa.array(values, batch.schema.field(place).type)
        )
    return batch


def moves_new_rows(staged: Sequence[Action], actions: Sequence[Action]) -> bool:
    """Whether a statement rewrites rows that were staged before it and have no ids yet."""
    new = {
        (item.path, item.dv_id)
        for item in staged
        if isinstance(item, AddFile) and item.base_row_id is None
    }
    removed = [item for item in actions if isinstance(item, RemoveFile)]
    if not any((item.path, item.dv_id) in new for item in removed):
        return False
    paths = {item.path for item in removed}
    # A file that only gets a deletion vector keeps its rows where they are.
    return any(isinstance(item, AddFile) and item.path not in paths for item in actions)
