"""The commits that begin and end deltasql's control of a table: raising and lowering the fence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from deltasql.errors import UnsupportedFeatureError
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import Action, CommitInfo, Metadata, Protocol
from deltasql.spec.features import FENCE
from deltasql.spec.properties import TIMESTAMPS, TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_TIME
from deltasql.spec.protocol import check_writable, upgraded
from deltasql.spec.schema import StructType

IN_COMMIT_TIMESTAMP: Final = "inCommitTimestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who commits, and under which id."""

    committer: str | None
    engine: str
    commit_id: str


def read_only_reason(state: TableState) -> str | None:
    """Why deltasql can't write a table safely; None if it can."""
    try:
        check_writable(state.protocol)
    except UnsupportedFeatureError as error:
        return f"{error.problem}: {error.cause}"
    return None


def is_fenced(state: TableState) -> bool:
    """Whether other writers are kept out."""
    return FENCE in state.writer_features


def raise_fence(state: TableState, *, now_ms: int, author: Author) -> bytes:
    """The commit file after `state` that keeps other writers out.

    It also turns in-commit timestamps on: a mirror that is late must not change the times of
    versions. Features that the old protocol implied are listed by name; no others are added.
    """
    version = state.version + 1
    timestamp = max(now_ms, state.in_commit_timestamp + 1)
    # Without schema and properties: their requirements are not part of this commit.
    protocol = upgraded(state.protocol, StructType(()), {}, also=(FENCE, IN_COMMIT_TIMESTAMP))
    actions: list[Action] = [protocol or state.protocol]
    if not state.in_commit_timestamps:
        enabled = {
            TIMESTAMPS: "true",
            TIMESTAMPS_SINCE: str(version),
            TIMESTAMPS_SINCE_TIME: str(timestamp),
        }
        actions.append(_with(state.metadata, {**state.properties, **enabled}))
    info = CommitInfo(
        in_commit_timestamp=timestamp,
        timestamp=timestamp,
        operation="ADOPT",
        operation_parameters={"fence": "true"},
        engine_info=author.engine,
        is_blind_append=False,
        read_version=state.version,
        isolation_level=state.isolation,
        txn_id=author.commit_id,
        user_name=author.committer,
    )
    return codec.encode_commit([info, *actions])


def lower_fence(state: TableState, *, keep_timestamps: bool) -> list[Action]:
    """The actions that let other writers in again."""
    dropped = {FENCE} if keep_timestamps else {FENCE, IN_COMMIT_TIMESTAMP}
    actions: list[Action] = [_without(state.protocol, dropped)]
    if not keep_timestamps:
        kept = {
            key: value
            for key, value in state.properties.items()
            if key not in (TIMESTAMPS, TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_TIME)
        }
        actions.append(_with(state.metadata, kept))
    return actions


def _with(metadata: Metadata, configuration: Mapping[str, str]) -> Metadata:
    return replace(metadata, configuration=dict(configuration))


def _without(protocol: Protocol, features: set[str]) -> Protocol:
    if protocol.writer_features is None:
        return protocol
    return replace(
        protocol,
        writer_features=tuple(name for name in protocol.writer_features if name not in features),
    )
