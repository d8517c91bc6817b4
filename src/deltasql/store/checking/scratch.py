"""The rows that a table should have, on the side: on disk as far as they are large."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from deltasql.log.file_sums import FileHashes
from deltasql.store import queries
from deltasql.store.rows import Row

_SQL: Final = queries.load("sqlite")


class Scratch:
    """Fingerprints of rows by their keys, put in by who replays and taken out by who compares.

    A private database without a name: SQLite keeps it in memory while it is small, and on disk
    when it is not.
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
        """A file is live."""
        self._connection.execute(_SQL["scratch_add"], (key, fingerprint, *file, version, path))

    def take(self, key: bytes) -> tuple[bytes, FileHashes, str] | None:
        """A file that was live is so no more: its fingerprint, hashes and path, if it was."""
        found: Row | None = self._connection.execute(_SQL["scratch_take"], (key,)).fetchone()
        return None if found is None else (found[0], FileHashes(*found[1:4]), found[4])

    def end(self, key: bytes, removed_version: int, fingerprint: bytes, path: str) -> None:
        """A file is dead since a version."""
        self._connection.execute(_SQL["scratch_end"], (key, removed_version, fingerprint, path))

    def take_dead(self, key: bytes, removed_version: int) -> bytes | None:
        """The fingerprint of a file that died, once."""
        given = (key, removed_version)
        found: Row | None = self._connection.execute(_SQL["scratch_take_dead"], given).fetchone()
        return None if found is None else found[0]

    def note(self, kind: str, version: int, label: str, fingerprint: bytes) -> None:
        """An action that is no file's."""
        self._connection.execute(_SQL["scratch_note"], (kind, version, label, fingerprint))

    def take_other(self, kind: str, version: int, label: str) -> bytes | None:
        """The fingerprint of such an action, once."""
        given = (kind, version, label)
        found: Row | None = self._connection.execute(_SQL["scratch_take_other"], given).fetchone()
        return None if found is None else found[0]

    def left_live(self) -> Iterator[Row]:
        """Version and path of files that nobody took."""
        return self._connection.execute(_SQL["scratch_left_live"])

    def left_dead(self) -> Iterator[Row]:
        """Version of the end, and path, of dead files that nobody took."""
        return self._connection.execute(_SQL["scratch_left_dead"])

    def left_other(self) -> Iterator[Row]:
        """Kind, version and label of other actions that nobody took."""
        return self._connection.execute(_SQL["scratch_left_other"])
