"""Turns a foreign log into the rows of a table, version by version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from typing import Final

from deltasql.adoption.loading.commits import read_ahead
from deltasql.adoption.loading.decoding import (
    Commit,
    Line,
    actions_of,
    check_metadata,
    decode_line,
    numbered_lines,
    read_lines,
)
from deltasql.adoption.loading.first_checkpoint import load_base
from deltasql.adoption.loading.foreign_log import LogPlan
from deltasql.adoption.loading.outside import PathRules
from deltasql.adoption.loading.parts import Parts
from deltasql.commit.collector import paused
from deltasql.delta_log.names import commit_name
from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.log.pruning.stats_columns import StatsColumn, stats_columns
from deltasql.log.state import TableState
from deltasql.log.timestamps import LATEST_MS
from deltasql.objectstore import ObjectInfo, ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import CommitInfo, Metadata, Protocol
from deltasql.spec.protocol import check_writable
from deltasql.spec.schema import parse_schema
from deltasql.store.bodies import pack
from deltasql.store.history import HistoryRows, LoadedVersion
from deltasql.store.rows import to_rows

# How many actions of a commit are in memory at once.
_SLICE: Final = 20_000
# The prefix of the commit ids of versions that others committed.
_ADOPTED: Final = "adopted-"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an adoption is: the last version read, the newest one, and files so far."""

    version: int
    newest: int
    files: int


class Loader:
    """Loads a log after what is already loaded; `state` is the table there, None before."""

    def __init__(
        self,
        objects: ObjectStore,
        write: Callable[[HistoryRows], None],
        *,
        state: TableState | None,
        paths: PathRules | None = None,
        commit_ids: Iterable[str] = (),
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._objects = objects
        self._parts = Parts(write, is_fresh=state is None)
        self.state = state
        self.paths = paths or PathRules(objects.location)
        self._commit_ids = {found for found in commit_ids if not found.startswith(_ADOPTED)}
        self._progress = progress or (lambda _: None)
        self.problems: list[str] = []

    def load(self, plan: LogPlan) -> None:
        """Load everything that the plan has beyond what is loaded, and pass it on."""
        with paused():
            self._load(plan)

    def _load(self, plan: LogPlan) -> None:
        if self.state is None and plan.base is not None:
            self._load_base(plan)
        elif self.state is not None and plan.first > self.state.version + 1:
            raise LogFormatError(
                f"_delta_log/{commit_name(self.state.version + 1)} is gone",
                cause="the log was cleaned up while it was being read",
                remedy="adopt again",
            )
        first = 0 if self.state is None else self.state.version + 1
        todo = (
            (version, plan.listing.commits[version]) for version in range(first, plan.newest + 1)
        )
        for version, item, body in read_ahead(self._objects, todo):
            self._load_commit(version, item, body, plan)
            self._progress(Progress(version, plan.newest, self._parts.files))
        self._parts.flush()

    # --- one commit -------------------------------------------------------------------

    def _load_commit(self, version: int, item: ObjectInfo, body: bytes, plan: LogPlan) -> None:
        name = commit_name(version)
        if not body.strip():
            raise LogFormatError(
                f"_delta_log/{name}:1: the commit file is empty",
                cause="a copy or an upload was cut short",
                remedy="restore the file from a copy",
            )
        commit = Commit(self.paths)
        columns = self._columns_after(body, name)
        lines = read_lines(body, f"_delta_log/{name}")
        while piece := list(islice(lines, _SLICE)):
            for line in piece:
                commit.look_at(line)
            self._parts.take(version, to_rows(actions_of(piece), columns))
        self.state = self._table_at(version, commit, columns)
        timestamp = self._time(version, commit.info, item)
        self.state = replace(self.state, in_commit_timestamp=timestamp)
        self._parts.end_version(
            self._loaded(version, commit.info, body, timestamp, version in plan.listing.checkpoints)
        )

    def _columns_after(self, body: bytes, name: str) -> tuple[StatsColumn, ...]:
        """The stats columns after a commit, whose metadata may come after its files."""
        before = () if self.state is None else self.state.stats_columns
        if b'"metaData"' not in body:
            return before
        for number, text in numbered_lines(body, f"_delta_log/{name}"):
            if b'"metaData"' in text:
                action = decode_line(text, f"_delta_log/{name}:{number}").action
                if isinstance(action, Metadata):
                    try:
                        check_metadata(action, f"_delta_log/{name}:{number}")
                    except UnsupportedFeatureError:
                        # Report the unknown feature rather than the type that came with it.
                        self._check_protocol_after(body, name)
                        raise
                    schema = parse_schema(action.schema_string)
                    return stats_columns(schema, action.partition_columns, before)
        return before

    def _check_protocol_after(self, body: bytes, name: str) -> None:
        """Raise if the protocol after a commit has an unknown feature."""
        found = [line.action for line in read_lines(body, f"_delta_log/{name}")]
        protocol = next((item for item in found if isinstance(item, Protocol)), None)
        if protocol is None and self.state is not None:
            protocol = self.state.protocol
        if protocol is not None:
            check_writable(protocol)

    def _table_at(
        self, version: int, commit: Commit, columns: tuple[StatsColumn, ...]
    ) -> TableState:
        before = self.state
        protocol, metadata = commit.protocol, commit.metadata
        since = bound = version
        if before is not None:
            since = version if metadata else before.metadata_version
            bound = version if protocol else before.protocol_version
            protocol, metadata = protocol or before.protocol, metadata or before.metadata
        if protocol is None or metadata is None:
            missing = "protocol" if protocol is None else "metaData"
            raise LogFormatError(
                f"_delta_log/{commit_name(version)}: the first version has no {missing}",
                cause="version 0 defines the table, so it must have exactly one of each",
                remedy="restore the file from a copy",
                version=version,
            )
        return TableState(
            version=version,
            in_commit_timestamp=before.in_commit_timestamp if before else 0,
            metadata=metadata,
            metadata_version=since,
            protocol=protocol,
            protocol_version=bound,
            stats_columns=columns,
        )

    def _time(self, version: int, info: CommitInfo | None, item: ObjectInfo) -> int:
        """The in-commit time if the table has them, else the file's, increasing (rule 46)."""
        assert self.state is not None
        last = self.state.in_commit_timestamp
        if not self.state.in_commit_timestamps:
            return max(item.modified, last + 1)
        given = _in_commit_time(version, info)
        if given is None:
            self.problems.append(f"{commit_name(version)} lacks its in-commit timestamp")
            return max(item.modified, last + 1)
        if given <= last:
            # Copied files are younger than their commits.
            self._parts.put_times_before(version, given)
        return given

    def _loaded(
        self,
        version: int,
        info: CommitInfo | None,
        body: bytes,
        timestamp: int,
        has_checkpoint: bool,  # noqa: FBT001
    ) -> LoadedVersion:
        encoding, stored = pack(body)
        info = info or CommitInfo()
        return LoadedVersion(
            version=version,
            commit_id=self._commit_id(version, info),
            in_commit_timestamp=timestamp,
            committer=_plain(info.user_name),
            operation=_plain(info.operation),
            operation_params=codec.dumps(info.operation_parameters or {}).decode(),
            is_blind_append=bool(info.is_blind_append),
            digest=sha256(body).digest(),
            body_encoding=encoding,
            body=stored,
            checkpoint_written=has_checkpoint,
        )

    def _commit_id(self, version: int, info: CommitInfo) -> str:
        """The original id if we committed it, so that its writer, who may still ask, finds it."""
        found = info.txn_id
        ours = (info.engine_info or "").startswith("deltasql/")
        is_odd = found is None or "\0" in found or found.startswith(_ADOPTED)
        if not ours or found is None or is_odd or found in self._commit_ids:
            # An id derived from the version, which nobody needs to remember.
            return f"{_ADOPTED}{version}"
        self._commit_ids.add(found)
        return found

    # --- the checkpoint it begins with ------------------------------------------------------

    def _load_base(self, plan: LogPlan) -> None:
        assert plan.base is not None
        version = plan.base.version
        self.state = load_base(self._objects, plan.base, self._parts, self.paths)
        # Older versions are known by their commit files only: history, but no snapshots.
        last = 0
        for older, item, body in read_ahead(
            self._objects, ((v, plan.listing.commits[v]) for v in range(plan.first, version))
        ):
            info = _info(read_lines(body, f"_delta_log/{commit_name(older)}"))
            given = _in_commit_time(older, info)
            last = max(given or item.modified, last + 1)
            has_checkpoint = older in plan.listing.checkpoints
            self._parts.end_version(self._loaded(older, info, body, last, has_checkpoint))
        self.state = replace(self.state, in_commit_timestamp=last)
        found = plan.listing.commits.get(version)
        body = b"" if found is None else self._objects.read(found.path)
        info = _info(read_lines(body, f"_delta_log/{commit_name(version)}"))
        top = found or self._objects.head(f"_delta_log/{plan.base.names[0]}")
        assert top is not None, "the checkpoint was read"
        timestamp = self._time(version, info, top)
        self.state = replace(self.state, in_commit_timestamp=timestamp)
        self._parts.end_version(self._loaded(version, info, body, timestamp, has_checkpoint=True))
        self._parts.flush()
        self._progress(Progress(version, plan.newest, self._parts.files))


def _in_commit_time(version: int, info: CommitInfo | None) -> int | None:
    given = None if info is None else info.in_commit_timestamp
    if given is not None and not 0 <= given <= LATEST_MS:
        raise LogFormatError(
            f"_delta_log/{commit_name(version)}: its in-commit timestamp is {given}",
            cause="that is before 1970 or after the year 9999",
            remedy="restore the file from a copy",
        )
    return given


def _info(lines: Iterable[Line]) -> CommitInfo | None:
    return next((line.action for line in lines if isinstance(line.action, CommitInfo)), None)


def _plain(text: str | None) -> str | None:
    return text if text is None else text.replace("\0", "\ufffd")
