"""Commit files read ahead, a few at a time, and returned in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from deltasql.errors import LogFormatError
from deltasql.objectstore import ObjectInfo, ObjectStore

_PARALLEL: Final = 8
_AHEAD: Final = 64
_AHEAD_BYTES: Final = 64 * 1024 * 1024
# No database takes a larger value in a row.
MOST_BYTES: Final = 1 << 30


def read_ahead(
    objects: ObjectStore, found: Iterable[tuple[int, ObjectInfo]]
) -> Iterator[tuple[int, ObjectInfo, bytes]]:
    """Version, object and bytes of each commit file, in order, in bounded memory."""
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="deltasql-adopt") as pool:
        waiting: deque[tuple[int, ObjectInfo, Future[bytes]]] = deque()
        size = 0
        try:
            for version, item in found:
                if item.size > MOST_BYTES:
                    raise LogFormatError(
                        f"{item.path}: the commit file has {item.size} bytes",
                        cause=f"a commit file of more than {MOST_BYTES} does not fit into a row of "
                        "the database",
                        remedy="restore the file from a copy",
                    )
                while waiting and (len(waiting) >= _AHEAD or size + item.size > _AHEAD_BYTES):
                    before = waiting.popleft()
                    size -= before[1].size
                    yield before[0], before[1], before[2].result()
                waiting.append((version, item, pool.submit(objects.read, item.path)))
                size += item.size
            while waiting:
                last = waiting.popleft()
                yield last[0], last[1], last[2].result()
        finally:
            for _, _, future in waiting:
                future.cancel()
