"""Adapts Delta's actions to the lake: with its fence, its times and its row ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deltasql.errors import ValidationError
from deltasql.log.state import TableState
from deltasql.spec.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
)
from deltasql.spec.features import FENCE
from deltasql.spec.properties import FENCE as FENCE_PROPERTY
from deltasql.spec.properties import (
    ROW_TRACKING_DOMAIN,
    TIMESTAMPS,
    TIMESTAMPS_SINCE,
    TIMESTAMPS_SINCE_TIME,
)
from deltasql.spec.protocol import WRITER_VERSION, implied_features

# Delta passes this for commits whose row ids are all final.
_SETTLED = 2**63 - 1
_MANAGED = "isManaged"
_SINCE = (TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_TIME)


def fitted(actions: Sequence[Action], state: TableState, *, high_water_mark: int) -> list[Action]:
    """The actions of a commit to an existing table.

    Row ids above the high-water mark are Delta's guess at the next ones: they are reassigned under
    the lock.
    """
    is_fenced = FENCE in state.writer_features
    found: list[Action] = []
    for action in actions:
        if isinstance(action, Protocol):
            found.append(with_features(action, [FENCE] if is_fenced else []))
        elif isinstance(action, Metadata):
            found.append(_with_timestamps(action) if state.in_commit_timestamps else action)
        elif isinstance(action, AddFile) and _is_guessed(action, high_water_mark):
            found.append(replace(action, base_row_id=None, default_row_commit_version=None))
        elif not (high_water_mark != _SETTLED and _is_mark(action)):
            found.append(action)
    return found


def fitted_to_be_new(actions: Sequence[Action]) -> list[Action]:
    """The actions of version 0: fenced and with in-commit timestamps, like other new tables."""
    metadata = next(item for item in actions if isinstance(item, Metadata))
    fence = metadata.configuration.get(FENCE_PROPERTY, "true").lower() != "false"
    wanted = ["inCommitTimestamp", *([FENCE] if fence else [])]
    return [
        with_features(item, wanted)
        if isinstance(item, Protocol)
        else _with_timestamps(_without_since(item))
        if isinstance(item, Metadata)
        else item
        for item in actions
    ]


def told_parameters(info: CommitInfo, *, managed: bool) -> dict[str, Any]:
    """What an operation was given, for the history; Delta creates by path, as external tables."""
    found = dict(info.operation_parameters or {})
    if _MANAGED in found:
        found[_MANAGED] = "true" if managed else "false"
    return found


def _without_since(metadata: Metadata) -> Metadata:
    """A clone has had times inside from its own first version, whenever its source got them."""
    kept = {key: value for key, value in metadata.configuration.items() if key not in _SINCE}
    return replace(metadata, configuration=kept)


def with_features(protocol: Protocol, names: Sequence[str]) -> Protocol:
    """The protocol with named writer features; what a legacy version implied is listed."""
    if not names:
        return protocol
    _, writer = implied_features(protocol)
    return replace(
        protocol,
        min_writer_version=WRITER_VERSION,
        writer_features=tuple(sorted(writer | set(names))),
    )


def _with_timestamps(metadata: Metadata) -> Metadata:
    given = metadata.configuration.get(TIMESTAMPS, "true")
    if given.lower() != "true":
        raise _no_timestamps()
    configuration = {**metadata.configuration, TIMESTAMPS: "true"}
    return replace(metadata, configuration=configuration)


def must_keep_timestamps(info: CommitInfo) -> None:
    """Raise `ValidationError` for UNSET TBLPROPERTIES of what the lake would set again."""
    names = (info.operation_parameters or {}).get("properties", "")
    if info.operation == "UNSET TBLPROPERTIES" and f'"{TIMESTAMPS}"' in str(names):
        raise _no_timestamps()


def _no_timestamps() -> ValidationError:
    return ValidationError(
        "in-commit timestamps can't be turned off",
        cause="a mirror that is late would change the times of its versions",
        remedy=f"leave {TIMESTAMPS} as it is",
    )


def _is_guessed(add: AddFile, high_water_mark: int) -> bool:
    return add.base_row_id is not None and add.base_row_id > high_water_mark


def _is_mark(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN
