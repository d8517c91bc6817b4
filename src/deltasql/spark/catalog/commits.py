"""Commits that Delta has prepared: adapted to the lake, and committed by its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltasql.commit.collector import paused_for
from deltasql.errors import DeltaSqlError, TableExistsError
from deltasql.lake.table import Table
from deltasql.lake.upkeep.sources import must_be_of_the_lake
from deltasql.log.conflict import FileKey, Reads
from deltasql.log.predicates.ast import Or
from deltasql.log.state import TableState
from deltasql.spark.catalog import blocks
from deltasql.spark.catalog.fitting import (
    fitted,
    fitted_to_be_new,
    must_keep_timestamps,
    told_parameters,
)
from deltasql.spark.catalog.places import Places, is_managed
from deltasql.spark.catalog.snapshots import Snapshots, understood
from deltasql.spark.catalog.staging import Block, refused
from deltasql.spark.catalog.writers import Writers
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, CdcFile, CommitInfo, RemoveFile
from deltasql.store.interface import Committed

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


# Any other action changes the snapshot apart from its files.
_OF_FILES = frozenset((AddFile, RemoveFile, CdcFile, CommitInfo))


class Commits:
    """Answers to commits: the version, and what is needed to go on from it without asking again.

    That is its time, if the new snapshot differs from the one that was read only in version, time
    and files; else the snapshot. Neither is there if the database failed right after the commit.
    """

    def __init__(self, lake: Lake, places: Places, writers: Writers, snapshots: Snapshots) -> None:
        self._lake = lake
        self._writers = writers
        self._places = places
        self._snapshots = snapshots

    @property
    def answers(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """By verb."""
        return {"commit": self._commit}

    def _commit(self, question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._committed(question)
        finally:
            self._writers.end(question)

    def _committed(self, question: Mapping[str, Any]) -> dict[str, Any]:
        files, actions = _taken(Path(question["actions"]))
        block = blocks.of(question, self._lake)
        if "create" in question:
            if block is not None:
                raise refused("CREATE TABLE")
            return self._answer(self._create(question, actions), 0)
        table = self._places.pinned(question["path"], question["table_id"])
        if block is not None:
            state = block.newest(table).snapshot.state
            staged = block.stage(table, actions, _reads(question, files, state), question)
            return self._answer(table, staged, block)
        return self._append(table, question, actions, files)

    def _create(self, question: Mapping[str, Any], actions: Sequence[Action]) -> Table:
        info = _info(actions)
        location = self._places.promised(question["path"])
        files = [item for item in actions if isinstance(item, AddFile)]
        try:
            must_be_of_the_lake(self._lake, question["create"], location, actions)
            fitting = fitted_to_be_new(actions)
        except DeltaSqlError:
            # Without a table, no vacuum would ever find them.
            if not question.get("again", False):
                paths = [file.path for file in files]
                self._lake.discarder.discard(location, paths, after=-1)
            raise
        made = self._lake.create_with(
            question["create"],
            location,
            fitting,
            operation=info.operation or "CREATE TABLE",
            operation_params=told_parameters(info, managed=is_managed(self._lake, location)),
            files=files,
            commit_id=question["txn_id"],
            may_arrive=question.get("again", False),
        )
        if made is None:
            raise TableExistsError(f"there is already a table {question['create']}")
        return made

    def _append(
        self,
        table: Table,
        question: Mapping[str, Any],
        actions: Sequence[Action],
        files: Sequence[str],
    ) -> dict[str, Any]:
        read_version = question["read_version"]
        is_pinned = question.get("pinned", False)
        state = self._lake.states.current(table.table_id)
        info = _info(actions)
        must_keep_timestamps(info)
        request = table.request(
            fitted(actions, state, high_water_mark=question["high_water_mark"]),
            operation=info.operation or "WRITE",
            operation_params=told_parameters(info, managed=is_managed(self._lake, table.location)),
            reads=_reads(question, files, state),
            read_version=read_version,
            expected_head=read_version if is_pinned else None,
            may_read_more=True,
        )
        # Delta's own id: it asks by this id, so a lost answer can be found.
        request.commit_id = question["txn_id"]
        request.may_arrive = question.get("again", False)
        if info.engine_info:
            request.engine = f"{info.engine_info} {self._lake.engine_info}"
        done = table.send(request)
        table.mirror_commit(request, done)
        if (
            isinstance(done, Committed)
            and done.version == read_version + 1
            and not state.row_tracking
            and _OF_FILES.issuperset(map(type, actions))
        ):
            return {"version": done.version, "timestamp": done.in_commit_timestamp}
        return self._answer(table, done.version)

    def _answer(self, table: Table, version: int, block: Block | None = None) -> dict[str, Any]:
        found = self._snapshots.after(table, version, block)
        return {"version": version} | ({} if found is None else {"snapshot": found})


def _taken(path: Path) -> tuple[list[str], list[Action]]:
    """The files that were read, and the actions; the driver deletes the file."""
    first, _, body = path.read_bytes().partition(b"\n")
    with paused_for(body.count(b"\n")):
        return codec.loads(first), codec.decode_commit(body, source="Delta's commit")


def _info(actions: Sequence[Action]) -> CommitInfo:
    return next((item for item in actions if isinstance(item, CommitInfo)), CommitInfo())


def _reads(question: Mapping[str, Any], files: Sequence[str], state: TableState) -> Reads:
    """What the transaction has read: Delta's predicates, as far as we understand them.

    A part that we don't understand is left out, so that more counts as read, never less.
    """
    keys: frozenset[FileKey] = frozenset((path, "") for path in files)
    zone = question["time_zone"]
    found = [understood(texts, state, time_zone=zone) for texts in question.get("reads", ())]
    predicates = tuple(item for item in found if item is not None)
    if question.get("pinned") or question["reads_everything"] or len(predicates) < len(found):
        return Reads.all()
    if not predicates:
        return Reads(files=keys) if keys else Reads.nothing()
    return Reads(predicate=predicates[0] if len(predicates) == 1 else Or(predicates), files=keys)
