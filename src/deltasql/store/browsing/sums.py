"""Tables and versions in numbers, from the rows of their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

from deltasql.spec import codec
from deltasql.store.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSums:
    """A table in numbers.

    `rows` counts those that are not deleted, and is None if a file does not say how many it has;
    `old` files belong to earlier versions only, and vacuum will delete them.
    """

    files: int
    size_bytes: int
    rows: int | None
    partitions: int
    old_files: int
    old_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSums:
    """What a version did.

    Rows are counted by file: a rewritten file counts with all of its rows, on both sides. An
    operation that only moves rows adds and removes none.
    """

    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    rows_added: int = 0
    rows_removed: int = 0


class SumLog(Protocol):
    """Numbers that people ask for."""

    def table_sums(self, table_id: int) -> TableSums:
        """The newest version of a table in numbers."""

    def version_sums(self, table_id: int, *, first: int, last: int) -> dict[int, VersionSums]:
        """What versions did; those that named no file are left out."""


class SumQueries(ABC):
    """The same on named queries."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    def table_sums(self, table_id: int) -> TableSums:
        files = size = rows = counted = 0
        for vector, count, size_bytes, records, known in self._rows("sums_live", table_id=table_id):
            files += count
            size += int(size_bytes)
            counted += known
            rows += int(records or 0) - _deleted(vector) * count
        ((partitions,),) = self._rows("sums_partitions", table_id=table_id)
        ((old_files, old_bytes),) = self._rows("sums_old", table_id=table_id)
        return TableSums(
            files=files,
            size_bytes=size,
            rows=rows if counted == files else None,
            partitions=partitions,
            old_files=old_files,
            old_bytes=int(old_bytes),
        )

    def version_sums(self, table_id: int, *, first: int, last: int) -> dict[int, VersionSums]:
        found: dict[int, VersionSums] = {}
        span = {"table_id": table_id, "first": first, "last": last}
        for version, *group in self._rows("sums_added", **span):
            files, size, rows = _sum(group)
            sums = found.get(version, VersionSums())
            found[version] = replace(
                sums,
                files_added=sums.files_added + files,
                bytes_added=sums.bytes_added + size,
                rows_added=sums.rows_added + rows,
            )
        for version, *group in self._rows("sums_removed", **span):
            files, size, rows = _sum(group)
            sums = found.get(version, VersionSums())
            found[version] = replace(
                sums,
                files_removed=sums.files_removed + files,
                bytes_removed=sums.bytes_removed + size,
                rows_removed=sums.rows_removed + rows,
            )
        for version, vector, records in self._rows("sums_restated", **span):
            sums, stay = found[version], int(records or 0) - _deleted(vector)
            found[version] = replace(
                sums,
                rows_added=sums.rows_added - stay,
                rows_removed=sums.rows_removed - stay,
            )
        return found


def _sum(group: list[Any]) -> tuple[int, int, int]:
    """Files, bytes and live rows of files that share a deletion vector, or have none."""
    vector, files, size, rows = group
    live = 0 if rows is None else int(rows) - _deleted(vector) * files
    return files, int(size or 0), live


def _deleted(vector: str | None) -> int:
    """How many rows a deletion vector deletes."""
    return 0 if vector is None else codec.vector_from_wire(codec.loads(vector)).cardinality
