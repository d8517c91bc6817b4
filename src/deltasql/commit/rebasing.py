"""Rebases a commit onto one that was faster, if both can succeed.

Rows that a compaction has moved are found again in its new files; deletion vectors of one file are
united if they delete different rows. Neither requires the caller to run again. What can't be
reconciled stays a conflict.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from deltasql.commit.request import CommitRequest
from deltasql.data.reading.deletion import deleted_in
from deltasql.data.reading.reader import read_files
from deltasql.data.rewriting import Rewriter
from deltasql.data.writing.vector_files import loosened, write_vectors
from deltasql.errors import CommitError, DeltaSqlError
from deltasql.log.conflict import Attempt, Reads, Winner, find_conflict
from deltasql.log.moved_rows import MovedRows, among_live, only_moves
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.log.removal import removes, rewritten
from deltasql.log.state import SERIALIZABLE, TableState
from deltasql.log.validation.commits import validate_commit
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import Action, AddFile, CdcFile, DeletionVector, RemoveFile
from deltasql.spec.deletion_vectors import inline
from deltasql.store.interface import LockedLog
from deltasql.store.optimizing.interface import OptimizeLog

# These operations read no rows of a file but those that they delete there.
ROW_BY_ROW: Final = frozenset({"DELETE", "UPDATE"})
_SUBQUERY: Final = re.compile(r"\bselect\b", re.IGNORECASE)


class ConflictUnderLockError(Exception):
    """The commit conflicts while heads are locked: resolving that would take too long."""


class Rebaser:
    """Rebases commits onto those that were faster; `objects` opens the files at a location."""

    def __init__(
        self,
        store: OptimizeLog,
        objects: Callable[[str], ObjectStore],
        *,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._objects = objects
        self._new_id = new_id
        self._now_ms = now_ms

    def after(
        self,
        request: CommitRequest,
        winners: Iterable[Winner],
        state: TableState,
        log: LockedLog | None = None,
        *,
        in_haste: bool = False,
    ) -> CommitRequest:
        """The request as it may follow the winners; raises the conflict if it may not.

        In haste nothing is read or written: then every conflict is a `ConflictUnderLockError`.
        """
        attempt = Attempt.of(request.actions, request.reads, state)
        for winner in winners:
            given = request
            conflict = find_conflict(attempt, winner, state)
            if conflict is not None and in_haste:
                raise ConflictUnderLockError from conflict
            if conflict is not None:
                if not _may_follow(request, attempt):
                    raise conflict
                request = self._rebased(request, winner, state, log, conflict)
            request = _following(request, winner)
            if request is not given:
                attempt = Attempt.of(request.actions, request.reads, state)
        return request

    def _rebased(
        self,
        request: CommitRequest,
        winner: Winner,
        state: TableState,
        log: LockedLog | None,
        conflict: CommitError,
    ) -> CommitRequest:
        try:
            rebase = _Rebase(self, request, winner, state)
            rebase.unite_vectors()
            rebase.follow_rows(self._moved(request.table_id, winner, log))
            request, left = rebase.result()
        except (DeltaSqlError, OSError) as error:
            # Perhaps a file can't be read; what matters to the caller is the other writer.
            raise conflict from error
        attempt = Attempt.of(request.actions, request.reads, state)
        again = find_conflict(attempt, left, state)
        if again is not None:
            raise again
        validate_commit(request.actions, state)
        return request

    def _moved(self, table_id: int, winner: Winner, log: LockedLog | None) -> MovedRows | None:
        counts = self._store.moved_rows(table_id, winner.version, log)
        if counts is not None:
            return MovedRows.of(winner, counts)
        found = self._store.sorted_rows(table_id, winner.version, log)
        return None if found is None else MovedRows.of(winner, *found)

    # --- for `_Rebase` ------------------------------------------------------------------

    def objects_of(self, request: CommitRequest) -> ObjectStore:
        """Where the table's files are."""
        return self._objects(request.location)

    def vectors(
        self, request: CommitRequest, rows: dict[str, Collection[int]]
    ) -> dict[str, DeletionVector]:
        """New deletion vectors, by path."""
        if not rows:
            return {}
        written = write_vectors(self.objects_of(request), rows, new_id=self._new_id)
        request.rebased_files.append(written.path)
        return dict(written.vectors)

    def without(
        self, request: CommitRequest, state: TableState, add: AddFile, rows: Iterable[int]
    ) -> list[AddFile]:
        """A file rewritten without some of its rows."""
        rewriter = Rewriter(
            self.objects_of(request), state, new_id=self._new_id, now_ms=self._now_ms
        )
        found = rewriter.rewrite([replace(add, deletion_vector=inline(rows))]).added
        request.rebased_files.extend(new.path for new in found)
        return found

    def removed(self, adds: Iterable[AddFile]) -> list[RemoveFile]:
        """The removes of files whose other rows stay, or are in new files."""
        return removes(rewritten(adds), deletion_timestamp=self._now_ms())


@dataclass(slots=True)
class _Rebase:
    """One request, rebased onto one winner."""

    rebaser: Rebaser
    request: CommitRequest
    winner: Winner
    state: TableState
    objects: ObjectStore = field(init=False)
    _added: dict[str, AddFile] = field(init=False)
    _removed: dict[str, RemoveFile] = field(init=False)
    # What the winner removed and added that is no longer a conflict.
    _settled_removes: set[str] = field(default_factory=set)
    _settled_adds: set[str] = field(default_factory=set)
    # Files as the winner left them, and the rows to delete in each.
    _to_mark: dict[str, tuple[AddFile, set[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.objects = self.rebaser.objects_of(self.request)
        given = self.request.actions
        self._added = {item.path: item for item in given if isinstance(item, AddFile)}
        self._removed = {item.path: item for item in given if isinstance(item, RemoveFile)}

    # --- both deleted rows of one file --------------------------------------------------

    def unite_vectors(self) -> None:
        """Settle files in which the winner deleted rows, and this commit none or others."""
        if self.state.isolation == SERIALIZABLE:
            return
        adds = {add.path: add for add in self.winner.all_of(AddFile)}
        for remove in self.winner.all_of(RemoveFile):
            path, add = remove.path, adds.get(remove.path)
            is_ours = path in self._removed or path in self._added
            if self._is_row_by_row and not is_ours:
                # The deleted rows are not ours.
                self._settled_removes.add(path)
            if add is None or add.deletion_vector is None:
                continue
            before, after = self._rows(remove), self._rows(add)
            if not after.issuperset(before):
                continue
            # No row was added.
            self._settled_adds.add(path)
            if path in self._removed and self._unite(remove, add, before, after):
                self._settled_removes.add(path)

    def _unite(
        self, remove: RemoveFile, add: AddFile, before: frozenset[int], after: frozenset[int]
    ) -> bool:
        mine, kept = self._removed[remove.path], self._added.get(remove.path)
        if kept is None or kept.deletion_vector is None or mine.dv_id != remove.dv_id:
            return False
        wanted = self._rows(kept)
        if not wanted.issuperset(before) or (wanted - before) & (after - before):
            return False
        if not self._is_row_by_row and self._has_read_rows_of(remove, add):
            return False
        self._take_back(remove.path)
        self._to_mark[add.path] = (add, set(wanted | after))
        return True

    @property
    def _is_row_by_row(self) -> bool:
        """Whether it has read only the rows that it deletes; a transaction may read more."""
        given = self.request
        if given.transaction_id is not None or given.may_read_more:
            return False
        # So may a subquery in the condition.
        has_subquery = _SUBQUERY.search(str(given.operation_params)) is not None
        return given.operation in ROW_BY_ROW and not has_subquery

    def _has_read_rows_of(self, remove: RemoveFile, add: AddFile) -> bool:
        """Whether the winner deleted rows that this commit rests on."""
        predicate = self.request.reads.predicate
        if predicate is None:
            return True
        before = replace(add, deletion_vector=remove.deletion_vector)
        return self._matching(before) != self._matching(add)

    def _matching(self, add: AddFile) -> int:
        return sum(
            batch.num_rows
            for batch in read_files(
                self.objects,
                [add],
                schema=self.state.schema,
                partition_columns=self.state.partition_columns,
                column_mapping=self.state.column_mapping,
                columns=[],
                predicate=self.request.reads.predicate,
            )
        )

    # --- rows that a compaction moved ---------------------------------------------------

    def follow_rows(self, moved: MovedRows | None) -> None:
        """Settle files whose rows the winner only moved."""
        if moved is None:
            return
        for remove in self.winner.all_of(RemoveFile):
            mine = self._removed.get(remove.path)
            if mine is None or mine.dv_id != remove.dv_id:
                continue
            kept = self._added.get(remove.path)
            if kept is None:
                rows: Iterable[int] = moved.live_rows(remove.path)
            else:
                before = self._sorted_rows(remove)
                gone = self._rows(kept).difference(before)
                rows = among_live(sorted(gone), before)
            for add, row in moved.find(remove.path, rows):
                self._to_mark.setdefault(add.path, (add, set()))[1].add(row)
            self._take_back(remove.path)
            self._settled_removes.add(remove.path)

    # --- the result ---------------------------------------------------------------------

    def result(self) -> tuple[CommitRequest, Winner]:
        """The request with its new actions, and the winner without what is settled."""
        partly = {
            path: (add, rows)
            for path, (add, rows) in self._to_mark.items()
            if len(rows) != record_count(load_stats(add.stats))
        }
        gone = self.rebaser.removed(add for add, _ in self._to_mark.values())
        actions = [
            item
            for item in self.request.actions
            if not isinstance(item, AddFile | RemoveFile)
            or item.path in (self._added if isinstance(item, AddFile) else self._removed)
        ]
        request = replace(
            self.request,
            actions=[*actions, *gone, *self._remaining(partly)],
            reads=_reading(self.request.reads, self._to_mark),
        )
        left = [
            item
            for item in self.winner.actions
            if not (isinstance(item, RemoveFile) and item.path in self._settled_removes)
            and not (isinstance(item, AddFile) and item.path in self._settled_adds)
        ]
        return request, Winner(self.winner.version, left)

    def _remaining(self, partly: dict[str, tuple[AddFile, set[int]]]) -> list[Action]:
        """The actions for files that lost some of their rows."""
        if self.state.writes_deletion_vectors:
            vectors = self.rebaser.vectors(
                self.request, {path: rows for path, (_, rows) in partly.items()}
            )
            return [
                replace(
                    add,
                    deletion_vector=vectors[path],
                    stats=loosened(add.stats),
                    data_change=True,
                )
                for path, (add, _) in partly.items()
            ]
        has_changes = any(isinstance(item, CdcFile) for item in self.request.actions)
        if partly and self.state.has_change_feed and not has_changes:
            raise DeltaSqlError("rows that only moved would be reported as changes")
        return [
            new
            for add, rows in partly.values()
            for new in self.rebaser.without(self.request, self.state, add, rows)
        ]

    def _take_back(self, path: str) -> None:
        """Forget what this commit did to a file, which is no longer there in that form."""
        del self._removed[path]
        self._added.pop(path, None)

    def _rows(self, file: AddFile | RemoveFile) -> frozenset[int]:
        """The deleted rows of a file."""
        return frozenset(self._sorted_rows(file))

    def _sorted_rows(self, file: AddFile | RemoveFile) -> array[int]:
        return deleted_in(self.objects, file)


def _may_follow(request: CommitRequest, attempt: Attempt) -> bool:
    """Whether it changes rows and nothing else; a commit that only moves rows is done again."""
    changes_rows = not (
        attempt.only_rearranges or attempt.has_metadata or attempt.has_protocol or request.restores
    )
    return changes_rows and bool(request.location)


def _following(request: CommitRequest, winner: Winner) -> CommitRequest:
    """The request; if it read files that a compaction moved, it has read the new ones, too."""
    files = request.reads.files
    if not files or not only_moves(winner):
        return request
    paths = {path for path, _ in files}
    if paths.isdisjoint(remove.path for remove in winner.all_of(RemoveFile)):
        return request
    added = frozenset((add.path, add.dv_id) for add in winner.all_of(AddFile))
    return replace(request, reads=replace(request.reads, files=files | added))


def _reading(reads: Reads, files: Iterable[str]) -> Reads:
    if reads.files is None:
        return reads
    return replace(reads, files=reads.files | {(path, "") for path in files})
