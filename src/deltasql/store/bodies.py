"""Commit files as the database keeps them: small ones raw, large ones compressed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import zstandard

from deltasql.errors import DatabaseError
from deltasql.store.interface import BodyTemplate

# Larger bodies are compressed. Below this size, the bytes saved are not worth the time.
LARGE = 64 * 1024
_LEVEL = 3


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A commit file ready for its row: digest of the plain bytes, encoding, stored bytes."""

    digest: bytes
    encoding: str
    data: bytes


def pack(body: bytes) -> tuple[str, bytes]:
    """Encoding and bytes to store."""
    if len(body) <= LARGE:
        return "raw", body
    return "zstd", _compress(body)


def stored_body(body: bytes) -> StoredBody:
    """A commit file whose bytes are final, ready for its row."""
    return StoredBody(sha256(body).digest(), *pack(body))


def unpack(encoding: str, stored: bytes) -> bytes:
    """Restore the commit file; a compressed body may consist of several frames."""
    if encoding == "raw":
        return stored
    if encoding != "zstd":
        raise DatabaseError(
            f"a commit is stored in an encoding named {encoding!r}",
            cause="this release knows raw and zstd",
            remedy="upgrade deltasql to the release that wrote it",
        )
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True)
        return bytes(reader.read())
    except zstandard.ZstdError as error:
        raise DatabaseError(
            "the stored bytes of a commit can't be decompressed",
            cause=str(error),
            remedy="restore the database from a backup",
        ) from None


class PackedTemplate:
    """A template whose long tail is compressed as a frame of its own, before the lock is taken."""

    __slots__ = ("_end", "_template")

    def __init__(self, template: BodyTemplate) -> None:
        size = len(template.start) + len(template.middle) + len(template.end)
        self._template = template
        self._end = _compress(template.end) if size > LARGE else None

    @property
    def end(self) -> bytes | None:
        """The last frame, which contains no time; None if nothing is compressed."""
        return self._end

    def fill(self, in_commit_timestamp: int) -> StoredBody:
        """The body with its time."""
        filled = self.fill_start(in_commit_timestamp)
        if self._end is None:
            return filled
        return StoredBody(filled.digest, filled.encoding, filled.data + self._end)

    def fill_start(self, in_commit_timestamp: int) -> StoredBody:
        """The same without the last frame, for callers that already have it."""
        body = self._template.fill(in_commit_timestamp)
        digest = sha256(body).digest()
        if self._end is None:
            return StoredBody(digest, "raw", body)
        start = body[: len(body) - len(self._template.end)]
        return StoredBody(digest, "zstd", _compress(start))


def _compress(data: bytes) -> bytes:
    # A compressor can't be shared between threads, and is cheap to create.
    return zstandard.ZstdCompressor(level=_LEVEL).compress(data)
