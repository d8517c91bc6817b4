"""The one place that decides whether new data files belong to no commit, and then deletes them.

A failure that the caller has seen is no proof. Files are deleted only after SQL, asked under the
lock of the table's head, has said that it knows neither the commit nor any of its files, and only
if no attempt of the commit can still arrive. In any doubt they stay: vacuum deletes what is left,
but nothing brings back what was deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from deltasql.commit.request import CommitRequest
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.paths import is_elsewhere, object_key
from deltasql.store.interface import LockedLog, LogStore
from deltasql.store.rows import key_of

logger = logging.getLogger("deltasql.commit")

# Called with the paths, as the log would write them, of files that were written in vain.
Abandon: TypeAlias = Callable[[Sequence[str]], None]


class Discarder:
    """Deletes files that were written for commits that will never happen. It never fails."""

    def __init__(self, store: LogStore, objects: Callable[[str], ObjectStore]) -> None:
        self._store = store
        self._objects = objects

    def discard(
        self,
        location: str,
        paths: Iterable[str],
        *,
        after: int,
        table_id: int | None = None,
        request: CommitRequest | None = None,
    ) -> None:
        """Delete new files of a table if no version has them.

        `paths` are as the log would write them; the version `after` is older than the files. A
        table that was to be created has no id. `request` is the commit that they were for, if it
        was sent.
        """
        # Files elsewhere were not written by us.
        own = sorted({path for path in paths if not is_elsewhere(path)})
        if not own:
            return
        try:
            if request is not None and request.may_arrive:
                self._keep(location, own, "an attempt of their commit may still arrive")
            elif self._is_known(location, own, after, table_id, request):
                self._keep(location, own, "a version has them")
            else:
                self._objects(location).delete([object_key(path) for path in own])
        except Exception as error:  # noqa: BLE001 - the failure that led here is the one to show
            self._keep(location, own, f"it is unknown whether a version has them: {error}")

    def abandoning(self, location: str, table_id: int, *, after: int) -> Abandon:
        """A function that deletes new files of a table for which no commit was sent."""
        return lambda paths: self.discard(location, paths, after=after, table_id=table_id)

    def _is_known(
        self,
        location: str,
        paths: Collection[str],
        after: int,
        table_id: int | None,
        request: CommitRequest | None,
    ) -> bool:
        # Several tables may have their files at this place, for whatever reason.
        ids = {table.table_id for table in self._store.tables() if table.location == location}
        if table_id is not None:
            ids.add(table_id)
        elif request is not None and self._store.find_created(request.commit_id) is not None:
            return True
        with self._store.locked(ids) as log:
            return any(_knows(log, item, paths, after, request) for item in sorted(ids))

    def _keep(self, location: str, paths: Collection[str], why: str) -> None:
        logger.warning(
            "%d new files at %s stay for vacuum: %s", len(paths), location, why,
            extra={"files": len(paths), "first": next(iter(paths)), "reason": why},
        )  # fmt: skip


def _knows(
    log: LockedLog,
    table_id: int,
    paths: Collection[str],
    after: int,
    request: CommitRequest | None,
) -> bool:
    if request is not None and log.find_commit(table_id, request.commit_id) is not None:
        return True
    marked = [] if request is None else _marked(request)
    known = log.known_files(table_id, {*paths, *(add.path for add in marked)}, after=after)
    new = {key_of(path) for path in paths}
    # A file of deletion vectors has no row of its own: look for the rows of its vectors.
    vectors = {(key_of(add.path), key_of(add.dv_id)) for add in marked}
    return any(path_key in new for path_key, _ in known) or not vectors.isdisjoint(known)


def _marked(request: CommitRequest) -> list[AddFile]:
    return [
        action
        for action in request.actions
        if type(action) is AddFile and action.deletion_vector is not None
    ]
