"""`V.crc` on stores where every object costs a request: written after its commit file is visible
and recorded in SQL.

The file is optional, so no one who waits for the commit should wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from deltasql.errors import StoreError
from deltasql.objectstore import Item, ObjectStore

logger = logging.getLogger("deltasql.mirror")

_THREADS: Final = 2


class LateChecksums:
    """Writes checksum files in the background of a publish run."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: list[Future[None]] = []

    @property
    def is_busy(self) -> bool:
        """Whether some are still being written."""
        self._under_way = [item for item in self._under_way if not item.done()]
        return bool(self._under_way)

    def write(self, items: Sequence[Item]) -> None:
        """Start to write some whose commit files are visible."""
        if items and self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="deltasql-checksums")
        for item in items:
            assert self._pool is not None
            self._under_way.append(self._pool.submit(self._put, item))

    def close(self) -> None:
        """Wait for the unfinished ones: none may appear once another process has the lease."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def _put(self, item: Item) -> None:
        try:
            # An existing one stays: it can only be ours, or a foreign one that was correct.
            self._objects.put_if_absent(*item)
        except StoreError as error:
            logger.warning("%s was not written; readers don't need it: %s", item[0], error)
