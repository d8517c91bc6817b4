"""A client that is stopped in the middle of a large commit (SIGSTOP), and may go on later."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import deltasql
from deltasql.store.postgres.bulk import copy_text, staging
from tests.stress.writers import new_add

FILES = 3_000


def commit_and_stop(url: str, location: str, names: list[str]) -> None:
    """Commit many files to tables, as one transaction; stops while the rows are sent."""
    staging.copy_chunks = _stopping
    settings = {"mirror.mode": "off", "sql.timeout": "10s"}
    with deltasql.connect(url, location=location, settings=settings) as lake:
        if len(names) == 1:
            lake.table(names[0]).commit([new_add("large", 1) for _ in range(FILES)])
            return
        with lake.transaction() as tx:
            for name in names:
                tx.table(name).commit([new_add("large", 1) for _ in range(FILES)])


_stopped: list[bool] = []


def _stopping(*arguments: Any) -> Iterator[bytes]:
    for number, chunk in enumerate(copy_text.copy_chunks(*arguments)):
        yield chunk
        if number == 3 and not _stopped:
            _stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)
