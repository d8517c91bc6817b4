"""The rows that a table should have, kept aside: on disk if they are large."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from deltasql.log.file_sums import FileHashes
from deltasql.store import queries
from deltasql.store.rows import Row

_SQL: Final = queries.load("sqlite")


class Taken(NamedTuple):
    """A live file that was set aside."""

    fingerprint: bytes
    file: FileHashes
    path: str


class Scratch:
    """Fingerprints of rows by key: replay puts them in, and the comparison takes them out.

    It is a private database without a name: SQLite keeps it in memory while it is small, and on
    disk otherwise.
    """

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for pragma in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF"):
            self._connection.execute(pragma).fetchall()
        for name in ("scratch_live", "scratch_dead", "scratch_other"):
            self._connection.execute(_SQL[name])
        self._connection.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def add(
        self, key: bytes, fingerprint: bytes, *, file: FileHashes, version: int, path: str
    ) -> None:
        """Note that a file is live."""
        self._connection.execute(_SQL["scratch_add"], (key, fingerprint, *file, version, path))

    def take(self, key: bytes) -> Taken | None:
        """Note that a live file ended; returns what is known of it, if it was live."""
        found: Row | None = self._connection.execute(_SQL["scratch_take"], (key,)).fetchone()
        if found is None:
            return None
        fingerprint, *hashes, path = found
        return Taken(fingerprint, FileHashes(*hashes), path)

    def end(self, key: bytes, removed_version: int, fingerprint: bytes, path: str) -> None:
        """Note that a file is dead since a version."""
        self._connection.execute(_SQL["scratch_end"], (key, removed_version, fingerprint, path))

    def take_dead(self, key: bytes, removed_version: int) -> bytes | None:
        """Take the fingerprint of a dead file, once."""
        given = (key, removed_version)
        found: Row | None = self._connection.execute(_SQL["scratch_take_dead"], given).fetchone()
        return None if found is None else found[0]

    def note(self, kind: str, version: int, label: str, fingerprint: bytes) -> None:
        """Note an action that is not about a file."""
        self._connection.execute(_SQL["scratch_note"], (kind, version, label, fingerprint))

    def take_other(self, kind: str, version: int, label: str) -> bytes | None:
        """Take the fingerprint of such an action, once."""
        given = (kind, version, label)
        found: Row | None = self._connection.execute(_SQL["scratch_take_other"], given).fetchone()
        return None if found is None else found[0]

    def left_live(self) -> Iterator[Row]:
        """Version and path of the live files that were not taken."""
        return self._connection.execute(_SQL["scratch_left_live"])

    def count_live(self) -> int:
        """How many live files were not taken."""
        (found,) = self._connection.execute(_SQL["scratch_count_live"]).fetchone()
        return int(found)

    def left_sizes(self) -> Iterator[tuple[str, int]]:
        """Path and size of the live files that were not taken."""
        return self._connection.execute(_SQL["scratch_left_sizes"])

    def left_dead(self) -> Iterator[Row]:
        """Version of the end, and path, of the dead files that were not taken."""
        return self._connection.execute(_SQL["scratch_left_dead"])

    def left_other(self) -> Iterator[Row]:
        """Kind, version and label of the other actions that were not taken."""
        return self._connection.execute(_SQL["scratch_left_other"])
