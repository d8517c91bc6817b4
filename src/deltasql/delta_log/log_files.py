"""The files that each version of a log has, kept as numbers: a long log has very many of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping

from deltasql.delta_log.names import LOG
from deltasql.objectstore import ObjectInfo


class VersionedFiles(Mapping[int, ObjectInfo]):
    """The files of one kind, by version and in order; `name` makes a version's name.

    What a listing says of a file is put together when it is asked for.
    """

    __slots__ = ("_modified", "_sizes", "_versions", "name")

    def __init__(self, name: Callable[[int], str]) -> None:
        self.name = name
        self._versions = array("q")
        self._sizes = array("q")
        self._modified = array("q")

    def add(self, version: int, item: ObjectInfo) -> None:
        """Add a file; listings are sorted by name, and so come in the order of versions."""
        assert not self._versions or version > self._versions[-1], "listings are sorted"
        self._versions.append(version)
        self._sizes.append(item.size)
        self._modified.append(item.modified)

    def __getitem__(self, version: int) -> ObjectInfo:
        at = self._place(version)
        if at is None:
            raise KeyError(version)
        return ObjectInfo(LOG + self.name(version), self._sizes[at], self._modified[at])

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self._place(version) is not None

    def _place(self, version: int) -> int | None:
        at = bisect_left(self._versions, version)
        return at if at < len(self._versions) and self._versions[at] == version else None

    def __iter__(self) -> Iterator[int]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def last(self) -> int | None:
        """The newest version that has one."""
        return self._versions[-1] if self._versions else None

    def after(self, version: int) -> list[int]:
        """The versions after one."""
        return list(self._versions[bisect_left(self._versions, version + 1) :])
