"""Rows that a transaction has written and that have no ids yet: they get them when it commits.

To read them, Delta gets temporary ids that no row will ever have (`with_row_ids`), and whatever
would write those to a file is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.spec.actions import Action, AddFile, RemoveFile


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
