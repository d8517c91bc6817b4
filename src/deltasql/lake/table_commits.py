"""What every commit to a table goes through: its request, its mirror, its cleanup if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from deltasql.commit import CommitRequest
from deltasql.commit.commit_logging import after_commit
from deltasql.commit.discarding import Abandon
from deltasql.commit.requirements import Done
from deltasql.errors import (
    CommitStateUnknownError,
    DeltaSqlError,
    LogFormatError,
)
from deltasql.lake import writing
from deltasql.lake.arguments import internal
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.upkeep.maintaining import must_be_ready
from deltasql.lake.upkeep.sources import places
from deltasql.log.conflict import Reads
from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.retention import mirror_mode
from deltasql.mirror.engine import Target
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
)
from deltasql.spec.features import canonical_metadata, features_of
from deltasql.spec.protocol import upgraded
from deltasql.spec.schema import parse_schema
from deltasql.store.interface import LockedLog, TableRecord
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


class TableCommits:
    """A table by its record, and commits to it; `Table` adds rows and reading."""

    def __init__(self, lake: Lake, record: TableRecord) -> None:
        self._lake = lake
        self._record = record
        # Cached as long as the metadata it comes from: every commit needs it.
        self._target: tuple[Metadata, Target] | None = None

    @property
    def name(self) -> str:
        """The table's name."""
        return self._record.name

    @property
    def table_id(self) -> int:
        """The table's id in SQL."""
        return self._record.table_id

    @property
    def location(self) -> str:
        """Where the table's files are."""
        return self._record.location

    @property
    def target(self) -> Target:
        """The table as the mirror knows it."""
        metadata = self._lake.states.current(self.table_id).metadata
        known = self._target
        if known is None or known[0] is not metadata:
            mode = mirror_mode(metadata.configuration)
            self._target = known = metadata, Target(self.table_id, self.name, self.location, mode)
        return known[1]

    @property
    def sources(self) -> tuple[str, ...]:
        """The places outside its own that the table may read from; empty for anywhere."""
        return tuple(self._lake.store.sources_of(self.table_id))

    def allow(self, sources: Sequence[str]) -> None:
        """Let the table read files from more folders, named in full."""
        found = places(self.location, sources)
        self._lake.store.allow_sources(self.table_id, found, instead=False)

    @property
    def objects(self) -> ObjectStore:
        """The object store at the table's location."""
        return self._lake.objects(self.location)

    @property
    def memory_limit(self) -> str:
        """How much memory the engine may use for an operation."""
        return self._lake.settings.duckdb_memory_limit

    def present(self) -> AbstractContextManager[None]:
        """Makes vacuum spare files while they are written and committed."""
        return self._lake.presence.writing()

    # --- commits ----------------------------------------------------------------------

    def commit(
        self,
        actions: Iterable[Action | Mapping[str, Any]],
        operation: str = "WRITE",
        operation_params: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        read_version: int | None = None,
        reads: str | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
    ) -> int:
        """Commit actions, ours or Delta's JSON objects; returns the version.

        `expected_version` is the version that the commit must become, else `VersionConflictError`.
        `read_version` is the version that the actions rest on, and `reads` what was read of it:
        None for nothing, "all", or a WHERE text. A txn that was committed before is skipped, and
        the version that holds it is returned.
        """
        with tracing.span("commit", table=self.name):
            request = self.request_for(
                actions,
                operation=operation,
                operation_params=operation_params or {},
                expected_head=None if expected_version is None else expected_version - 1,
                read_version=read_version,
                reads=self.parse_reads(reads),
                txn=(app_id, app_version),
            )
            return self.commit_request(request)

    @internal
    def request_for(
        self,
        actions: Iterable[Action | Mapping[str, Any]],
        *,
        txn: tuple[str | None, int | None] = (None, None),
        **details: Any,
    ) -> CommitRequest:
        """A commit request from actions in any form, with the protocol that they need."""
        # There may be many files, and validation checks their types anyway.
        parsed = [
            action if isinstance(action, AddFile | RemoveFile) else codec.parse_action(action)
            for action in actions
        ]
        details["names_removes"] = any(isinstance(item, RemoveFile) for item in parsed)
        return self.request(
            [*parsed, *writing.txn_actions(*txn), *self._upgrade(parsed)], **details
        )

    @internal
    def commit_request(self, request: CommitRequest) -> int:
        """Commit a request and mirror it; returns the version."""
        done = self.send(request)
        self.mirror_commit(request, done)
        return done.version

    def _upgrade(self, actions: Sequence[Action]) -> list[Action]:
        """The protocol that new metadata or domains need, if the table lacks it."""
        kinds = {type(action) for action in actions}
        if Protocol in kinds or not kinds & {Metadata, DomainMetadata}:
            return []
        state = self._lake.states.refresh(self.table_id)
        metadata = next((item for item in actions if isinstance(item, Metadata)), state.metadata)
        try:
            schema = parse_schema(metadata.schema_string)
        except LogFormatError:
            # Validation reports this better.
            return []
        needed = upgraded(state.protocol, schema, metadata.configuration, also=features_of(actions))
        return [] if needed is None else [needed]

    @internal
    def request(
        self, actions: Sequence[Action], *, operation: str, **details: Any
    ) -> CommitRequest:
        """A commit request to this table."""
        return CommitRequest(
            table_id=self.table_id,
            table_name=self.name,
            actions=canonical_metadata(actions),
            commit_id=writing.new_commit_id(),
            operation=operation,
            committer=self._lake.committer,
            engine=self._lake.engine_info,
            location=self.location,
            **details,
        )

    @internal
    def send(
        self, request: CommitRequest, *, inside: Callable[[LockedLog], None] | None = None
    ) -> Done:
        """Commit to SQL, running `inside` in the same transaction; `mirror_commit` comes after."""
        must_be_ready(self._lake, [self.target], [request])
        try:
            if inside is None:
                return self._lake.commits.commit(request)
            (done,) = self._lake.commits.commit_all([request], inside=inside)
        except CommitStateUnknownError:
            raise
        except DeltaSqlError:
            self._discard(request.rebased_files, request)
            raise
        return done

    @internal
    def mirror_commit(self, request: CommitRequest, done: Done) -> None:
        """Mirror what was committed; whatever fails here, the version stands."""
        if not done.is_new:
            return
        with after_commit("mirroring", self.name):
            if Metadata in map(type, request.actions):
                # The commit may have changed how the table is mirrored.
                self._lake.states.forget(self.table_id)
            self._lake.engine.after_commit([(self.target, done.version)])

    def parse_reads(self, reads: str | None) -> Reads:
        """What a commit read, from the `reads` of the low-level interface."""
        if reads is None:
            return Reads.nothing()
        if reads == "all":
            return Reads.all()
        # Use the schema as it is now: the cached one may lack a column.
        return Reads.where(bind(parse(reads), self._lake.states.refresh(self.table_id).schema))

    @internal
    def commit_write(
        self,
        write: writing.Write,
        extra: Sequence[Action] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> WriteResult:
        """Commit what was written; see `commit_written`."""
        done = self.commit_written(write, extra, metadata)
        return WriteResult(done.version, write.metrics if done.is_new else None)

    @internal
    def commit_written(
        self,
        write: writing.Write,
        extra: Sequence[Action] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Done:
        """Commit what was written; its files are deleted if they certainly don't count.

        `metadata` goes into the commitInfo, for readers of the history.
        """
        request = self.request(
            [*write.actions, *extra, *writing.commit_info(write.metrics, metadata)],
            operation=write.operation,
            operation_params=write.operation_params,
            reads=write.reads,
            read_version=write.read_version,
        )
        try:
            done = self.send(request)
        except CommitStateUnknownError:
            # The files may belong to a version, so they stay; on Ctrl-C as well.
            raise
        except DeltaSqlError:
            self._discard([file.path for file in write.files], request)
            raise
        if not done.is_new:
            self._discard([*(file.path for file in write.files), *request.rebased_files], request)
        self.mirror_commit(request, done)
        return done

    def _discard(self, paths: Sequence[str], request: CommitRequest) -> None:
        if paths:
            self._lake.discarder.discard(
                self.location,
                paths,
                after=-1 if request.read_version is None else request.read_version,
                table_id=self.table_id,
                request=request,
            )

    @internal
    def abandon(self, after: int) -> Abandon:
        """A function that deletes files, written from now on, that belong to no commit."""
        self._lake.commits.rights.check()
        self._lake.engine.look_back(self.target)
        return self._lake.discarder.abandoning(self.location, self.table_id, after=after)
