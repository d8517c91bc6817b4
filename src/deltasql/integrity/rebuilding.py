"""Rebuilds the rows of a table from its stored commits, all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deltasql.adoption.loading.first_checkpoint import load_base
from deltasql.adoption.loading.outside import PathRules
from deltasql.adoption.loading.parts import Parts
from deltasql.delta_log.listing import FoundCheckpoint, list_log
from deltasql.delta_log.reading import checkpoint_sums
from deltasql.errors import DamagedLogError, DeltaSqlError, TableNotFoundError
from deltasql.integrity.commits import CommitReplay, readable_state
from deltasql.integrity.findings import CheckProgress
from deltasql.integrity.version_columns import as_committed, with_next_time
from deltasql.log.file_sums import FileSums
from deltasql.log.state import TableState
from deltasql.mirror.checkpoints.soundness import (
    begins_with_state,
    other_sums,
    trust_first_state,
)
from deltasql.mirror.engine import Target
from deltasql.objectstore import ObjectStore
from deltasql.showing.report import Report
from deltasql.spec import codec
from deltasql.store.checking.interface import Origin, RebuildLog, RebuiltHead, TableColumns
from deltasql.store.interface import LogStore

_FIRST: Final = -1
# A limit by versions, too, since versions without files also take memory.
_MOST_VERSIONS: Final = 2_000


@dataclass(frozen=True, slots=True, repr=False)
class RebuildReport(Report):
    """What was rebuilt: the rows of `versions` commits, up to `version`."""

    table: str
    version: int
    versions: int
    files: int


@dataclass(frozen=True, slots=True)
class _FirstState:
    """What an adopted table began with: by its rows, by its recorded sums, and by the mirror.

    `sums` are None if they were not recorded.
    """

    version: int
    state: TableState | None
    sums: FileSums | None
    checkpoints: tuple[FoundCheckpoint, ...]


def rebuild(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    *,
    progress: Callable[[CheckProgress], None] | None = None,
) -> RebuildReport:
    """Rebuild the rows of a table, which nobody commits to meanwhile.

    `DamagedLogError` if a commit or the first state is lost; then everything stays as it was.
    """
    first = _first_state(log, objects, target)
    with log.rebuilding(target.table_id) as run:
        run.clear(after=_FIRST if first is None else first.version)
        parts = Parts(run.write, is_fresh=first is None)
        state = None if first is None else _begin(run, objects, parts, first, target)
        replay = CommitReplay(state)
        last = _FIRST if first is None else first.version
        begun, last_ict = last, run.head.last_ict
        for commit, next_time in with_next_time(run.commits(after=last)):
            if commit.version != last + 1:
                raise _gone(target, last + 1)
            for rows in replay.rows(commit):
                parts.take(commit.version, rows)
            told = as_committed(commit, replay.metadata, replay.protocol, next_time=next_time)
            if told != commit:
                run.mend(told)
            last, last_ict = told.version, told.in_commit_timestamp
            if (last - begun) % _MOST_VERSIONS == 0:
                parts.flush()
            if progress is not None:
                progress(CheckProgress(target.name, last, run.head.version))
        if last < run.head.version:
            raise _gone(target, last + 1)
        parts.flush()
        files = run.live_sums().files
        run.finish(_head(target, replay, last, last_ict))
    if first is not None and state is not first.state:
        # A checkpoint does not say which versions its actions came from: they count as its own now.
        trust_first_state(log, target.table_id, first.version)
    return RebuildReport(target.name, last, last - begun, files)


def _first_state(log: LogStore, objects: ObjectStore, target: Target) -> _FirstState | None:
    """What an adopted table began with; None for one whose commits say everything."""
    head = log.head(target.table_id)
    if head is None:
        raise TableNotFoundError.named(target.name)
    version = head.earliest_version
    if not begins_with_state(log, target.table_id, version):
        return None
    known = [item for item in log.trusted(target.table_id) if item.origin is Origin.ADOPTED]
    sums = next((item.sums for item in known if item.version == version), None)
    is_as_then = sums is None or sums.others == other_sums(log, target.table_id, version).others
    return _FirstState(
        version,
        readable_state(log.state(target.table_id, version)) if is_as_then else None,
        sums,
        list_log(objects).checkpoints.get(version, ()),
    )


def _begin(
    run: RebuildLog, objects: ObjectStore, parts: Parts, first: _FirstState, target: Target
) -> TableState:
    """The state that replay begins with: from the rows or, if they are damaged, the mirror."""
    if first.state is not None and (first.sums is None or first.sums.same_files(run.live_sums())):
        return first.state
    for found in first.checkpoints:
        try:
            is_same = first.sums is None or checkpoint_sums(objects, found).has_files_of(first.sums)
        except DeltaSqlError:
            continue
        if is_same:
            run.clear(after=first.version - 1)
            run.clear_files()
            state = load_base(objects, found, parts, PathRules(objects.location)).state
            # Commits may remove these files, so they have to exist first.
            parts.flush()
            return state
    raise DamagedLogError(
        f"{target.name} can't be rebuilt: the state it was adopted with is damaged",
        cause=f"the rows of version {first.version} have changed, its commits begin after it, "
        "and the mirror no longer has a checkpoint of it",
        remedy="restore the database, or that checkpoint, from a backup",
        version=first.version,
    )


def _head(target: Target, replay: CommitReplay, version: int, last_ict: int) -> RebuiltHead:
    if replay.metadata is None or replay.protocol is None:
        raise _gone(target, 0)
    return RebuiltHead(
        version,
        last_ict,
        replay.metadata_version,
        replay.protocol_version,
        TableColumns(
            codec.dumps(dict(replay.metadata.configuration)).decode(),
            replay.protocol.min_reader_version,
            replay.protocol.min_writer_version,
        ),
    )


def _gone(target: Target, version: int) -> DamagedLogError:
    return DamagedLogError(
        f"{target.name} can't be rebuilt: the commit of version {version} is gone",
        cause="its row of dl_table_versions is missing, or is not the table's",
        remedy="restore it from a backup; the mirror may have the bytes",
        version=version,
    )
