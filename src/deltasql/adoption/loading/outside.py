"""Checks what a foreign log names outside its table's root against what may be read there.

Paths that climb are refused at once, and so are those that lead to another kind of store. Outside
folders that were not allowed are collected, so that the user learns of all of them. What was
removed again need not be allowed: older versions can't read it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from deltasql.errors import LogFormatError, ValidationError
from deltasql.places import place_of, same_account, same_scheme, uri_of
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, CdcFile, DeletionVector, RemoveFile
from deltasql.spec.deletion_vectors import InFile, locate
from deltasql.spec.paths import is_elsewhere, is_plain, must_not_climb

# How many are remembered if a log names a million, and how many folders are reported.
_MOST: Final = 1_000
_TOLD: Final = 5


class PathRules:
    """The paths that a table may have: below its root, and below the places in `allowed`."""

    def __init__(self, location: str, allowed: Sequence[str] = ()) -> None:
        self._location = location
        self._root = place_of(location)
        self._allowed = tuple(allowed)
        self._within: set[str] = set()
        # By file and deletion vector: the folder that would have to be allowed.
        self._outside: dict[tuple[str, str], str] = {}

    def look_at(self, file: AddFile | RemoveFile | CdcFile, source: str) -> None:
        """Note the paths of an action; `LogFormatError` for one that no table can have."""
        vector_id = "" if isinstance(file, CdcFile) else file.dv_id
        self.look_at_path(file.path, source, vector_id)
        if not isinstance(file, CdcFile) and file.deletion_vector is not None:
            self.look_at_vector(file.deletion_vector, source)
        if isinstance(file, RemoveFile) and is_elsewhere(file.path):
            place = place_of(uri_of(file.path, self._location))
            self._outside.pop((place, vector_id), None)

    def look_at_path(self, path: str, source: str, vector_id: str = "") -> None:
        """Note one path."""
        if is_plain(path):
            return
        must_not_climb(path, source=source)
        if is_elsewhere(path):
            self._look_outside(uri_of(path, self._location), source, vector_id)

    def look_at_vector(self, vector: DeletionVector, source: str) -> None:
        """Note where a deletion vector is."""
        if vector.storage_type == "i" and vector.cardinality >= 0:
            return
        place = locate(vector)
        if isinstance(place, InFile):
            self.look_at_path(place.path, source)

    def look_at_named(self, named: Iterable[tuple[str, str | None]], source: str) -> None:
        """Note paths and vectors (JSON) that are already loaded."""
        for path, vector in named:
            self.look_at_path(path, source)
            if vector is not None:
                self.look_at_vector(codec.vector_from_wire(codec.loads(vector)), source)

    def _look_outside(self, uri: str, source: str, vector_id: str) -> None:
        folder = uri.rpartition("/")[0]
        if folder in self._within:
            return
        if not same_scheme(folder, self._location):
            raise LogFormatError(
                f"{source}: the path {uri!r:.200} points to another kind of store",
                cause=f"the table is at {self._location}; its paths can't point to another kind",
                remedy="copy the file to the table's own store, and correct the path in the log",
            )
        place = place_of(folder + "/")
        is_own = place.startswith(self._root) and same_account(folder, self._location)
        if is_own or place.startswith(self._allowed):
            if len(self._within) < _MOST:
                self._within.add(folder)
        elif len(self._outside) < _MOST:
            self._outside[place_of(uri), vector_id] = _without_partitions(folder)

    @property
    def outside(self) -> dict[tuple[str, str], str]:
        """What was found outside and not allowed: by file and deletion vector, the folder."""
        return self._outside

    def take_outside(self, found: Mapping[tuple[str, str], str]) -> None:
        """Note what somebody else's look at a part of the log found outside."""
        for place, folder in found.items():
            if len(self._outside) < _MOST:
                self._outside[place] = folder

    def check(self) -> None:
        """Raise `ValidationError` if the log names something that was not allowed."""
        if not self._outside:
            return
        told = _few(set(self._outside.values()))
        raise ValidationError(
            f"the table at {self._location} refers to files outside its own folder",
            cause="it is a shallow clone, or somebody wants you to read files that they can't read "
            "themselves; the files are in " + ", ".join(told),
            remedy="to allow these folders, name them: lake.adopt(…, "
            f"allow=[{', '.join(map(repr, told))}])",
        )


def _without_partitions(folder: str) -> str:
    """The folder above those of partitions: `…/day=1/hour=2` belongs to a table at `…`."""
    while "=" in unquote(folder.rpartition("/")[2]):
        folder = folder.rpartition("/")[0]
    return folder


def _few(folders: set[str]) -> list[str]:
    """Folders without those inside them; if there are many, the ones that contain them all."""
    found = sorted(folders)
    kept: list[str] = []
    for folder in found:
        if not any(folder.startswith(f"{other}/") for other in kept):
            kept.append(folder)
    if len(kept) <= _TOLD:
        return kept
    stores = {"/".join(folder.split("/", 3)[:3]) for folder in kept}
    common = [
        posixpath.commonpath([item for item in kept if item.startswith(f"{root}/")])
        for root in sorted(stores)
    ]
    # `commonpath` turns two slashes into one.
    fixed = [item.replace(":/", "://", 1).replace(":////", ":///", 1) for item in common]
    return fixed[:_TOLD]
