"""An adoption that kills itself at a chosen step, in a process of its own."""

from __future__ import annotations

from typing import Any

import deltasql
from deltasql.adoption.loading import parts
from deltasql.objectstore.local import LocalStore
from tests.faults.dying import Fuse, watch_statements


def adopt_and_die(url: str, location: str, root: str, step: int, when: str) -> None:
    """Adopt in small parts, but be killed before or after the step of that number.

    Every statement is a step, and so is the moment when the fence's file is put.
    """
    fuse = Fuse(step, when)
    watch_statements(url.partition(":")[0], fuse)
    put: Any = LocalStore.put_if_absent
    LocalStore.put_if_absent = fuse.wrapped(put)  # type: ignore[method-assign]
    parts.MOST_VERSIONS = 2  # type: ignore[misc]
    parts.MOST_ROWS = 3  # type: ignore[misc]
    with deltasql.connect(url, location=location, committer="victim") as lake:
        fuse.is_lit = True
        lake.adopt(root, name="t", validate=False)


def recover_and_die(url: str, location: str, step: int) -> None:
    """Recover all tables of a lake at once, but be killed before that statement of SQLite's."""
    fuse = Fuse(step, "before")
    watch_statements("sqlite", fuse)
    parts.MOST_VERSIONS = 2  # type: ignore[misc]
    with deltasql.connect(url, location=location, committer="victim") as lake:
        fuse.is_lit = True
        lake.recover(validate=False)
