"""Which object a path of the log names, and whether that object lies at a table's place."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final

from deltasql.errors import LogFormatError, ValidationError
from deltasql.objectstore.names import check_key
from deltasql.places import LOCAL, place_of
from deltasql.spec import codec
from deltasql.spec.actions import DeletionVector
from deltasql.spec.deletion_vectors import InFile, locate
from deltasql.spec.paths import decode_path, is_elsewhere, object_key

_LOG: Final = "_delta_log"


class Place:
    """A table's place: what lies in it is the table's, except for other tables inside it."""

    def __init__(self, location: str, *, is_local: bool, within: Collection[str] = ()) -> None:
        self._place = place_of(location)
        self._root = self._place.removeprefix(LOCAL)
        self._is_local = is_local
        # Tables from before places were kept apart may lie inside this one.
        self._within = tuple(
            place.removeprefix(self._place)
            for place in within
            if place != self._place and place.startswith(self._place)
        )
        self._folders: dict[str, bool] = {}

    def key_of(self, path: str) -> str | None:
        """The key of a path of the log; None if it is elsewhere, or not one that we would touch."""
        if is_elsewhere(path):
            return None
        try:
            return self.own(object_key(path))
        except LogFormatError:
            return None

    def own(self, key: str) -> str | None:
        """The key, if what it names may be one of the table's files."""
        try:
            check_key(key)
        except ValidationError:
            return None
        if key.partition("/")[0] == _LOG or key.startswith(self._within):
            return None
        return key if self._stays_in(key) else None

    def _stays_in(self, key: str) -> bool:
        """Whether no symbolic link on a local disk leads the key out of the place."""
        if not self._is_local:
            return True
        folder = key.rpartition("/")[0]
        if folder not in self._folders:
            real = os.path.realpath(self._root + folder).rstrip("/") + "/"
            self._folders[folder] = real.startswith(self._root)
        return self._folders[folder]

    def key_of_folder(self, folder: str) -> str | None:
        """The beginning of the keys in a folder, given by its URI, if it is at this place."""
        place = place_of(folder)
        return place.removeprefix(self._place) if place.startswith(self._place) else None

    @staticmethod
    def key_in(start: str, name: str) -> str:
        """The key of a file by its name in the log, in the folder that `key_of_folder` found."""
        return start + decode_path(name)


def vector_path(text: str) -> str | None:
    """The path of the file that a deletion vector, as JSON, lies in; None for an inline one."""
    return vector_file(codec.vector_from_wire(codec.loads(text)))


def vector_file(vector: DeletionVector) -> str | None:
    """The path of the file that a deletion vector lies in; None for an inline one."""
    found = locate(vector)
    return found.path if isinstance(found, InFile) else None
