"""Where a table may read files outside its own folder: its sources.

A log may be written by anybody: an absolute path in it is followed only into places that were named
when the table was adopted or cloned, or allowed later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from deltasql.commit import CommitRequest
from deltasql.errors import ValidationError
from deltasql.lake import locations
from deltasql.maintenance.vacuuming.keys import vector_file
from deltasql.mirror.engine import Target
from deltasql.objectstore.sources import other_store
from deltasql.places import place_of, same_account, same_scheme, uri_of
from deltasql.spec.actions import Action, AddFile, CdcFile
from deltasql.spec.paths import is_elsewhere

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


def places(location: str, allow: Iterable[Any]) -> tuple[str, ...]:
    """Folders that a caller allows the table at `location` to read, in canonical spelling."""
    found = []
    for item in allow:
        text = os.fspath(item) if isinstance(item, str | os.PathLike) else item
        if not isinstance(text, str):
            raise _refused(f"{item!r:.80}", "it is neither text nor a path")
        given = locations.absolute(text) if text.strip() else ""
        place = place_of(given) if given else ""
        if place in ("", place_of("/")):
            raise _refused(text, "it is not a folder, or it is the root of the file system")
        if not same_scheme(given, location):
            raise _refused(text, f"the table is at {location}, in another kind of store")
        found.append(place)
    return tuple(dict.fromkeys(found))


def _refused(text: str, cause: str) -> ValidationError:
    return ValidationError(
        f"a table can't be allowed to read from {text!r:.200}",
        cause=cause,
        remedy="name the folder that its files are in",
    )


def absolute_paths(actions: Iterable[Action]) -> list[str]:
    """What actions add by absolute paths: data, changes and deletion vectors."""
    found = []
    for action in actions:
        if not isinstance(action, AddFile | CdcFile):
            continue
        if is_elsewhere(action.path):
            found.append(action.path)
        if isinstance(action, AddFile) and action.deletion_vector is not None:
            path = vector_file(action.deletion_vector)
            if path is not None and is_elsewhere(path):
                found.append(path)
    return found


def outside(actions: Iterable[Action], location: str, sources: Sequence[str]) -> list[str]:
    """The folders of added files that lie neither below the location nor below the sources.

    `ValidationError` for one in another kind of store.
    """
    root = place_of(location)
    folders = dict.fromkeys(
        uri_of(path, location).rpartition("/")[0] for path in absolute_paths(actions)
    )
    found = []
    for folder in folders:
        if not same_scheme(folder, location):
            raise other_store(folder, location)
        place = place_of(folder + "/")
        is_own = place.startswith(root) and same_account(folder, location)
        if not is_own and not place.startswith(tuple(sources)):
            found.append(folder)
    return found


def must_be_allowed(lake: Lake, target: Target, request: CommitRequest) -> None:
    """Raise `ValidationError` if a commit adds files that its table may not read.

    Files of other tables of the lake are allowed: whoever commits can read those anyway.
    """
    if not absolute_paths(request.actions):
        return
    sources = lake.store.sources_of(target.table_id)
    for folder in outside(request.actions, target.location, sources):
        held = _holders(lake, folder)
        if not held:
            raise ValidationError(
                f"{target.name} can't have files in {folder!r:.200}",
                cause="it is outside the table, and is not one of its sources",
                remedy=f"to allow it, call table.allow([{folder!r:.200}])",
            )
        lake.store.allow_sources(target.table_id, held, instead=False)


def must_be_of_the_lake(lake: Lake, name: str, location: str, actions: Iterable[Action]) -> None:
    """Raise `ValidationError` if a new table would have files of other tables than the lake's."""
    for folder in outside(actions, location, ()):
        if not _holders(lake, folder):
            raise ValidationError(
                f"{name} can't have files in {folder!r:.200}",
                cause="it is in no table of this lake, so nothing here keeps its files from "
                "being deleted",
                remedy="copy the rows, with CREATE TABLE … AS SELECT, or adopt that table first",
            )


def _holders(lake: Lake, folder: str) -> list[str]:
    """The places of the lake's tables that a folder lies in."""
    place = place_of(folder + "/")
    return [
        claim.place
        for claim in lake.store.claims(folder)
        if claim.status == "live" and place.startswith(claim.place)
    ]
