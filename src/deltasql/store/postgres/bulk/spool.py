"""A buffer of batches between a database that should not wait and a reader that may be slow.

A transaction that stays open holds back the vacuum of the whole server. So a thread takes the
batches as fast as the server sends them: some stay in memory, and what a slow reader has not taken
yet goes to a temporary file.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from deltasql.errors import StoreTimeoutError
from deltasql.store.postgres.connections.forks import forked_in_use

# Pending batches beyond this go to the file.
IN_MEMORY: Final = 4 * 1024 * 1024


def spooled(
    batches: Generator[pa.RecordBatch, None, None],
    *,
    in_memory: int = IN_MEMORY,
    limit: float | None = None,
    cancel: Callable[[], None] = lambda: None,
) -> Iterator[pa.RecordBatch]:
    """The same batches, while the source is drained at its own pace; ends early with us.

    If the source is silent for `limit` seconds, another thread calls `cancel` and the source is
    left to itself: a database that hangs blocks its thread, but not the reader.
    """
    spool = _Spool(batches, in_memory, limit, cancel)
    spool.start()
    try:
        while (batch := spool.take()) is not None:
            yield batch
    finally:
        spool.close()


class _Spool:
    def __init__(
        self,
        batches: Generator[pa.RecordBatch, None, None],
        in_memory: int,
        limit: float | None,
        cancel: Callable[[], None],
    ) -> None:
        self._batches = batches
        self._cancel = cancel
        self._limit = limit
        self._room = in_memory
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._pending: deque[pa.RecordBatch] = deque()
        # Once one batch went to the file, all later ones do, which keeps their order.
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._reader: pa.RecordBatchStreamReader | None = None
        self._files: list[pa.NativeFile] = []
        self._filed = self._read = 0
        self._done = self._closed = self._abandoned = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._pump, name="deltasql-spool", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self) -> pa.RecordBatch | None:
        """The next batch; None after the last one."""
        if self._pid != os.getpid():
            raise forked_in_use(" for a read that was under way")
        with self._changed:
            if not self._changed.wait_for(self._has_news, self._limit):
                self._abandoned = True
                raise _silent(self._limit)
            if self._pending:
                batch = self._pending.popleft()
                self._room += batch.nbytes
                return batch
            if self._read == self._filed:
                if self._failure is not None:
                    raise self._failure
                return None
            self._read += 1
            if self._reader is None:
                self._reader = pa.ipc.open_stream(self._files[1])
        return self._reader.read_next_batch()

    def _has_news(self) -> bool:
        return bool(self._pending) or self._read < self._filed or self._done

    def close(self) -> None:
        """End the source, if it has not ended, and drop the file."""
        if self._pid != os.getpid():
            return
        with self._changed:
            self._closed = True
        if self._abandoned:
            # This may hang like the source, and cleans up once the source goes on.
            threading.Thread(target=self._end, name="deltasql-spool", daemon=True).start()
        else:
            self._tidy_up()

    def _end(self) -> None:
        self._cancel()
        self._tidy_up()

    def _tidy_up(self) -> None:
        self._thread.join()
        for file in self._files:
            file.close()

    def _pump(self) -> None:
        try:
            for batch in self._batches:
                if self._closed:
                    break
                self._put(batch)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            self._failure = error
        finally:
            self._batches.close()
            with self._changed:
                self._done = True
                self._changed.notify()

    def _put(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            if self._writer is None and batch.nbytes <= self._room:
                self._room -= batch.nbytes
                self._pending.append(batch)
                self._changed.notify()
                return
        if self._writer is None:
            self._open_file(batch.schema)
        assert self._writer is not None
        self._writer.write_batch(batch)
        with self._changed:
            self._filed += 1
            self._changed.notify()

    def _open_file(self, schema: pa.Schema) -> None:
        with tempfile.NamedTemporaryFile(prefix="deltasql-", delete=False) as file:
            path = Path(file.name)
        # Open for reading and writing, it needs no name, and vanishes with the process.
        self._files = [pa.OSFile(str(path), "wb"), pa.OSFile(str(path), "rb")]
        path.unlink()
        self._writer = pa.ipc.new_stream(self._files[0], schema)


def _silent(limit: float | None) -> StoreTimeoutError:
    return StoreTimeoutError(
        f"PostgreSQL sent nothing for {limit:g} s while reading files",
        cause="the server or the network does not respond",
        remedy="try again when the server answers; sql.timeout is the limit",
    )
