"""The upload of a big object to a bucket.

What fits into one part is one conditional put. More is uploaded in parts to a temporary name and
then copied without overwriting, because no client completes a multipart upload on condition that
the name is free: under its final name, a writer that lost its lease would replace an object while
others read it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from deltasql.objectstore.names import temporary_name

_PART = 8 << 20
_PARTS_AT_ONCE = 4
_TAIL = 64


class Upload:
    """One object; memory is limited to the parts being sent and the one being filled."""

    def __init__(self, store: Any, path: str) -> None:
        self._store = store
        self._path = path
        self._temporary = temporary_name(path)
        self._head = bytearray()
        self._tail = b""
        self._size = 0
        self._writer: Any = None

    def send(self, piece: memoryview) -> None:
        self._size += len(piece)
        if self._writer is None:
            if len(self._head) + len(piece) <= _PART:
                self._head += piece
                return
            self._writer = obstore.open_writer(
                self._store, self._temporary, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE
            )
            self._write(self._head)
            self._head = bytearray()
        self._write(piece)

    def _write(self, piece: bytearray | memoryview) -> None:
        self._tail = (self._tail + bytes(piece[-_TAIL:]))[-_TAIL:]
        # Copied, since the client may still be sending when the caller reuses the buffer.
        self._writer.write(bytes(piece))

    def publish(self) -> bool:
        """Give the object its name; False if the name is taken."""
        try:
            if self._writer is None:
                head = bytes(self._head)
                obstore.put(self._store, self._path, head, mode="create", use_multipart=False)
                return True
            writer, self._writer = self._writer, None
            writer.close()
            obstore.copy(self._store, self._temporary, self._path, overwrite=False)
        except AlreadyExistsError:
            self._remove()
            return False
        self._verify()
        self._remove()
        return True

    def _verify(self) -> None:
        """Azure may still be copying when it answers, and needs the source until it is done."""
        start = self._size - len(self._tail)
        end = obstore.get_range(self._store, self._path, start=start, length=len(self._tail))
        if bytes(end) != self._tail:
            raise TimeoutError(
                "the object is not what was uploaded: it is still being copied, or another's"
            )

    def discard(self) -> None:
        """Leave nothing: parts of an upload can't be listed, so it is completed and deleted."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            try:
                writer.close()
            finally:
                self._remove()

    def _remove(self) -> None:
        if self._size > _PART:
            # A leftover is found by its age.
            with suppress(BaseError, OSError):
                obstore.delete(self._store, self._temporary)
