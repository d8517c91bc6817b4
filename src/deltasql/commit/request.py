"""What a caller wants committed, and the proposal that the database gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltasql.log.conflict import Reads
from deltasql.log.state import TableState
from deltasql.log.stats_columns import stats_columns
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, CommitInfo, Metadata, Txn, UnknownAction
from deltasql.spec.schema import parse_schema
from deltasql.store.interface import BodyTemplate, Proposal
from deltasql.store.rows import to_rows

_BLIND_KINDS = frozenset({AddFile, Txn, CommitInfo, UnknownAction})
# Stands for the time in an encoded commitInfo until the database sets it.
_HOLE = 8_111_111_111_111_111_111


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """A commit to one table.

    `reads` and `read_version` say what the actions rest on; `expected_version` is the
    version that the commit must become.
    """

    table_id: int
    table_name: str
    actions: Sequence[Action]
    commit_id: str
    operation: str
    operation_params: Mapping[str, Any] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads.nothing)
    read_version: int | None = None
    expected_version: int | None = None
    committer: str | None = None
    engine: str = "deltasql"
    transaction_id: str | None = None
    # Whether it only adds and rests on nothing: then it can't conflict with data.
    is_blind_append: bool = field(init=False)

    def __post_init__(self) -> None:
        is_blind = self.reads.is_nothing and all(
            type(action) in _BLIND_KINDS for action in self.actions
        )
        object.__setattr__(self, "is_blind_append", is_blind)

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
    """The proposal of a request checked against `state`; None for a table's version 0."""
    given = request.actions if actions is None else actions
    body = _body(request, given, state)
    return Proposal(
        table_id=request.table_id,
        commit_id=request.commit_id,
        metadata_version=state.metadata_version if state else 0,
        protocol_version=state.protocol_version if state else 0,
        expected_version=expected_head,
        body=body,
        rows=to_rows(given, _stats_columns(given, state)),
        committer=request.committer,
        operation=request.operation,
        operation_params=codec.dumps(_text_values(request.operation_params)).decode(),
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
    request: CommitRequest, actions: Sequence[Action], state: TableState | None
) -> BodyTemplate:
    others = [action for action in actions if type(action) is not CommitInfo]
    info = codec.to_wire(_commit_info(request, actions, state))
    lines = codec.encode_lines(others)
    hole = _HOLE
    while True:
        info["commitInfo"]["inCommitTimestamp"] = info["commitInfo"]["timestamp"] = hole
        parts = codec.dumps(info).split(b"%d" % hole)
        if len(parts) == 3:
            break
        # The caller's own parameters hold that number: take another.
        hole -= 1
    end = b"\n".join([parts[2], *lines, b""])
    return BodyTemplate(parts[0], parts[1], end)


def _commit_info(
    request: CommitRequest, actions: Sequence[Action], state: TableState | None
) -> CommitInfo:
    given = next((action for action in actions if type(action) is CommitInfo), None)
    return CommitInfo(
        operation=request.operation,
        operation_parameters=_text_values(request.operation_params),
        engine_info=request.engine,
        is_blind_append=request.is_blind_append,
        read_version=request.read_version,
        isolation_level=state.isolation if state else None,
        txn_id=request.txn_id,
        user_name=request.committer,
        extra=given.extra if given else {},
    )


def _text_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Delta's readers expect the values of operationParameters as strings."""
    return {
        name: value if isinstance(value, str) or value is None else codec.dumps(value).decode()
        for name, value in params.items()
    }
