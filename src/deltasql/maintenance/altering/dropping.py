"""Features that a table can drop again, and what must be gone before: stock Delta's rules.

Readers replay commits from a checkpoint on. A feature that readers must know may leave the protocol
only when nothing in the history needs it: no commit that is still in SQL or in the mirror, and no
checkpoint. A feature that only writers must know concerns the head alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from deltasql.delta_log.listing import LogListing
from deltasql.delta_log.names import LogKind
from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, Metadata, RemoveFile
from deltasql.spec.features import FEATURES
from deltasql.spec.properties import (
    CHECKPOINT_POLICY,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    is_true,
)
from deltasql.store.interface import CommitRecord

CHECK_CONSTRAINTS: Final = "checkConstraints"
VECTORS: Final = "deletionVectors"
V2_CHECKPOINTS: Final = "v2Checkpoint"


def droppable(name: str) -> str:
    """A feature's name as Delta writes it; raises unless a table can drop it."""
    found = next((known for known in FEATURES if known.lower() == name.lower()), None)
    if found in (CHECK_CONSTRAINTS, *_TRACES):
        return found
    if found is None:
        why = "deltasql knows no such feature"
    else:
        why = _WHY.get(found, "its promise to readers and writers can't be taken back")
    raise UnsupportedFeatureError(
        f"the feature {found or name!r:.80} can't be dropped",
        cause=why,
        remedy=f"only {', '.join([CHECK_CONSTRAINTS, *_TRACES])} can; "
        "copy the rows to a table without it",
        features=(found or name,),
    )


def must_be_unused(state: TableState, feature: str) -> None:
    """Raise if the table lacks the feature, or if another one or the schema depends on it."""
    if feature not in state.writer_features:
        raise ValidationError(
            f"the table has no feature {feature}",
            remedy="table.snapshot().protocol lists those that it has",
            features=(feature,),
        )
    others = sorted(
        known for known in state.writer_features
        if known in FEATURES and feature in FEATURES[known].needs
    )  # fmt: skip
    if others:
        raise ValidationError(
            f"the feature {feature} can't be dropped",
            cause=f"{', '.join(others)} depend on it",
            remedy="drop those first, if possible",
            features=(feature,),
        )
    constraints = [
        key.removeprefix(CONSTRAINT_PREFIX)
        for key in state.properties
        if key.startswith(CONSTRAINT_PREFIX)
    ]
    if feature == CHECK_CONSTRAINTS and constraints:
        raise ValidationError(
            f"the feature {feature} can't be dropped",
            cause=f"the table has the constraints {', '.join(sorted(constraints))}",
            remedy="drop them first: table.drop_constraint(name)",
            features=(feature,),
        )


def needs_clean_history(feature: str) -> bool:
    """Whether readers have to know it, so that no older commit may use it either."""
    return FEATURES[feature].reader


def property_to_clear(feature: str, properties: Mapping[str, str]) -> tuple[str, str] | None:
    """The property that keeps the feature in use, and the value that it must get."""
    if feature == VECTORS and is_true(properties, DELETION_VECTORS):
        return DELETION_VECTORS, "false"
    if feature == V2_CHECKPOINTS and properties.get(CHECKPOINT_POLICY, "").lower() == "v2":
        return CHECKPOINT_POLICY, "classic"
    return None


def last_trace(feature: str, commits: Iterable[CommitRecord]) -> int | None:
    """The newest of the commits that uses the feature."""
    uses, newest = _TRACES[feature], None
    for commit in commits:
        if any(uses(action) for action in codec.decode_commit(commit.body)):
            newest = commit.version
    return newest


def trace_in_mirror(feature: str, listing: LogListing, *, since: int) -> str | None:
    """What in the mirror's log is older than the version `since`, or needs the feature."""
    if feature == V2_CHECKPOINTS:
        for name, _ in listing.of_kind(LogKind.V2_CHECKPOINT):
            return name.name
    oldest = min(listing.commits, default=since)
    return None if oldest >= since else f"the commit file of version {oldest}"


def _uses_vectors(action: Action) -> bool:
    if isinstance(action, Metadata):
        return is_true(action.configuration, DELETION_VECTORS)
    return isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None


def _uses_v2_checkpoints(action: Action) -> bool:
    if not isinstance(action, Metadata):
        return False
    return action.configuration.get(CHECKPOINT_POLICY, "").lower() == "v2"


_TRACES: Final[Mapping[str, Callable[[Action], bool]]] = {
    VECTORS: _uses_vectors,
    V2_CHECKPOINTS: _uses_v2_checkpoints,
}
_WHY: Final = {
    "columnMapping": "columns that were renamed or dropped are still in the files under the names "
    "that they had",
    "typeWidening": "older files have the narrower types",
    "inCommitTimestamp": "a mirror that is late would change the times of its versions",
    "deltasql": "it is the fence; table.release() removes it",
}
