"""The history of a table assembled in parts, each as large as a transaction should be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from deltasql.store.history import HistoryRows, LoadedVersion
from deltasql.store.rows import AddRow, CommitRows, RemoveRow, Row

MOST_ROWS: Final = 25_000
MOST_VERSIONS: Final = 2_000
MOST_BYTES: Final = 32 * 1024 * 1024


class Parts:
    """Collects what versions did, and passes it on whenever there is enough.

    Within a part, a file that comes and goes is tracked here; across parts, the database tracks it.
    `is_fresh` says that nothing is loaded yet, so that no add can restate a file.
    """

    def __init__(self, write: Callable[[HistoryRows], None], *, is_fresh: bool) -> None:
        self._write = write
        self._is_fresh = is_fresh
        self.files = 0
        self._begin()

    def _begin(self) -> None:
        self._rows = HistoryRows()
        self._live: dict[bytes, Row] = {}
        self._retired: set[bytes] = set()
        self._bytes = 0
        self._chunked = 0

    # --- files ------------------------------------------------------------------------

    def take(self, version: int, commit: CommitRows) -> None:
        """Take the rows of a version, or of a piece of it; removes come before adds."""
        for remove in commit.removes:
            self._remove(version, remove)
        for add in commit.adds:
            self._add(version, add)
        rows, place = self._rows, (version,)
        for found, kept in (
            (commit.txns, rows.txns),
            (commit.domains, rows.domains),
            (commit.cdc, rows.cdc),
            (commit.metadata, rows.metadata),
            (commit.protocol, rows.protocol),
        ):
            kept.extend(place + row for row in found)
        rows.partitions.extend(commit.partitions)
        if len(self._live) + len(rows.dead) + len(rows.retired) >= MOST_ROWS:
            self.flush()

    def _remove(self, version: int, remove: RemoveRow) -> None:
        key = remove.path_key + remove.dv_key
        add = self._live.pop(key, None)
        if add is not None:
            end = (version, remove.deletion_timestamp, remove.data_change, remove.action)
            self._rows.dead.append(add + end)
            return
        if key in self._retired:
            # Removed again without being added: the database handles each key only once per part.
            self.flush()
        self._retired.add(key)
        self._rows.retired.append((version, *remove))

    def _add(self, version: int, add: AddRow) -> None:
        key = add.path_key + add.dv_key
        old = self._live.get(key)
        if old is not None:
            self._rows.dead.append((*old, version, None, None, None))
        elif not self._is_fresh and key not in self._retired:
            self._retired.add(key)
            ended = (version, add.path_key, add.dv_key, "", None, None, None, None)
            self._rows.retired.append(ended)
        self._live[key] = (version, *add)

    def take_live(self, adds: Sequence[Row], partitions: Sequence[Row]) -> None:
        """Take files that are known to restate no other, with their versions."""
        self._rows.adds.extend(adds)
        self._rows.partitions.extend(partitions)
        self.files += len(adds)
        if len(self._rows.adds) >= MOST_ROWS:
            self.flush()

    def take_chunk(self, chunk: bytes, files: int, partitions: Sequence[Row]) -> None:
        """Take such files as a chunk that another process made."""
        self._rows.chunks.append(chunk)
        self._rows.partitions.extend(partitions)
        self.files += files
        self._chunked += files
        if self._chunked >= MOST_ROWS:
            self.flush()

    def take_tombstones(self, version: int, removes: Sequence[Row]) -> None:
        """Take removes of files that are not live."""
        self._rows.retired.extend((version, *row) for row in removes)
        if len(self._rows.retired) >= MOST_ROWS:
            self.flush()

    # --- versions ---------------------------------------------------------------------

    def end_version(self, version: LoadedVersion) -> None:
        """Note that a version is complete."""
        self._rows.versions.append(version)
        self._bytes += len(version.body)
        if len(self._rows.versions) >= MOST_VERSIONS or self._bytes >= MOST_BYTES:
            self.flush()

    def put_times_before(self, version: int, timestamp: int) -> None:
        """Make everything before a version earlier than it."""
        kept = []
        for item in self._rows.versions:
            latest = timestamp - (version - item.version)
            kept.append(item._replace(in_commit_timestamp=min(item.in_commit_timestamp, latest)))
        self._rows.versions = kept
        self._rows.times_before = (version, timestamp)

    def flush(self) -> None:
        """Pass on what there is."""
        rows = self._rows
        rows.adds.extend(self._live.values())
        # In the order of versions and partitions, as commits would have left them on disk.
        rows.partitions = list(dict.fromkeys(rows.partitions))
        self.files += len(self._live)
        self._begin()
        self._write(rows)
        self._is_fresh = False
