"""What a caller wants committed, and the proposal that the database gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from deltasql.log.conflict import Reads
from deltasql.log.pruning.stats_columns import stats_columns
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, CommitInfo, Metadata, Txn, UnknownAction
from deltasql.spec.schema import parse_schema
from deltasql.store.claims import Sources
from deltasql.store.interface import BodyTemplate, Proposal
from deltasql.store.rows import to_rows

_BLIND_KINDS = frozenset({AddFile, Txn, CommitInfo, UnknownAction})
# Placeholder in an encoded commitInfo for what is set later: times by the database, the rest by us.
_HOLE = 8_111_111_111_111_111_111


# Not frozen: a frozen constructor takes five times as long, and each small commit runs it.
@dataclass(slots=True, kw_only=True)
class CommitRequest:
    """A commit to one table.

    `reads` and `read_version` say what the actions rest on; `expected_head` is the
    version that the commit must follow.
    """

    table_id: int
    table_name: str
    actions: Sequence[Action]
    commit_id: str
    operation: str
    operation_params: Mapping[str, Any] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads.nothing)
    read_version: int | None = None
    expected_head: int | None = None
    committer: str | None = None
    engine: str = "deltasql"
    transaction_id: str | None = None
    # Where the table's files are; without it a commit can't be rebased.
    location: str = ""
    # New files written while it was rebased, as the log would write their paths.
    rebased_files: list[str] = field(default_factory=list)
    # Whether it may rest on rows that neither actions nor reads show, as with a subquery.
    may_read_more: bool = False
    # Whether the caller named files to remove, which may be gone: ours come from a snapshot.
    names_removes: bool = False
    # Whether it leaves exactly the files of an older version, under the metadata of that version.
    restores: bool = False
    # Features that its protocol leaves out on purpose.
    dropping: frozenset[str] = frozenset()
    # Whether an attempt to commit it may have been made elsewhere, or may yet arrive.
    may_arrive: bool = False
    # For a table that is to be created: those whose files it names.
    sources: Sources | None = None
    # Whether it only adds files and rests on nothing: then it can't conflict with data.
    is_blind_append: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_blind_append = self.reads.is_nothing and _BLIND_KINDS.issuperset(
            map(type, self.actions)
        )

    def is_blind_to(self, state: TableState) -> bool:
        """Whether it may be sent as it is to a table in this state, whatever happens meanwhile.

        Not where rows are tracked: new files get ids that depend on the version before.
        """
        return self.is_blind_append and not state.row_tracking

    @property
    def txn_id(self) -> str:
        """What commitInfo calls txnId: shared by all commits of a transaction."""
        return self.transaction_id or self.commit_id


def propose(
    request: CommitRequest,
    state: TableState | None,
    *,
    actions: Sequence[Action] | None = None,
    expected_head: int | None = None,
) -> Proposal:
    """The proposal of a request checked against `state`, which is None for a version 0."""
    given = request.actions if actions is None else actions
    info = next((action for action in given if type(action) is CommitInfo), None)
    committer = (info.user_name if info else None) or request.committer
    params = _rendered(tuple(_text_values(request.operation_params).items()))
    return Proposal(
        table_id=request.table_id,
        commit_id=request.commit_id,
        metadata_version=state.metadata_version if state else 0,
        protocol_version=state.protocol_version if state else 0,
        expected_head=expected_head,
        body=_body(request, given, info, params, state, committer),
        rows=to_rows(given, _stats_columns(given, state)),
        committer=committer,
        operation=request.operation,
        operation_params=params,
        transaction_id=request.transaction_id,
        is_blind_append=request.is_blind_append,
        may_have_vectors=state is None or state.has_deletion_vectors,
    )


def _stats_columns(actions: Sequence[Action], state: TableState | None) -> Any:
    previous = state.stats_columns if state else ()
    for action in actions:
        if type(action) is Metadata:
            schema = parse_schema(action.schema_string)
            return stats_columns(schema, action.partition_columns, previous)
    return previous


def _body(
    request: CommitRequest,
    actions: Sequence[Action],
    given: CommitInfo | None,
    params: str,
    state: TableState | None,
    committer: str | None,
) -> BodyTemplate:
    others = actions if given is None else [item for item in actions if item is not given]
    read = request.read_version
    start, before_read, middle, before_id, after_id = _info_around(
        request.operation,
        params,
        request.engine,
        state.isolation if state else None,
        committer,
        codec.dumps(given.extra) if given else b"{}",
        is_blind_append=request.is_blind_append,
        has_read_version=read is not None,
    )
    if read is not None:
        middle = before_read + b"%d" % read + middle
    info_end = before_id + codec.dumps(request.txn_id) + after_id
    return BodyTemplate(start, middle, b"\n".join([info_end, *codec.encode_lines(others), b""]))


@lru_cache(maxsize=256)
def _info_around(
    operation: str,
    params: str,
    engine: str,
    isolation: str | None,
    committer: str | None,
    extra: bytes,
    *,
    is_blind_append: bool,
    has_read_version: bool,
) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """The line of commitInfo around what differs between a writer's commits, and so cached: its
    in-commit timestamp, readVersion, timestamp and txnId, in this order.

    Without a readVersion nothing is before it.
    """
    info = CommitInfo(
        operation=operation,
        operation_parameters=codec.loads(params),
        engine_info=engine,
        is_blind_append=is_blind_append,
        isolation_level=isolation,
        user_name=committer,
        extra=codec.loads(extra),
    )
    wire = codec.to_wire(info)
    names = ["inCommitTimestamp", "timestamp", "txnId"]
    if has_read_version:
        names.append("readVersion")
    hole = _HOLE
    while True:
        for name in names:
            wire["commitInfo"][name] = hole
        parts = codec.dumps(wire).split(b"%d" % hole)
        if len(parts) == len(names) + 1:
            before_read = parts.pop(1) if has_read_version else b""
            return parts[0], before_read, parts[1], parts[2], parts[3]
        # The caller's own parameters contain that number: take another.
        hole -= 1


# Cached like the line around it. Only texts and nulls: 1 and true would be the same key.
@lru_cache(maxsize=256)
def _rendered(params: tuple[tuple[str, str | None], ...]) -> str:
    return codec.dumps(dict(params)).decode()


def _text_values(params: Mapping[str, Any]) -> dict[str, str | None]:
    """Delta's readers expect the values of operationParameters as strings."""
    return {
        name: value if isinstance(value, str) or value is None else codec.dumps(value).decode()
        for name, value in params.items()
    }
