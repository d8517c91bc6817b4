"""Commits that change a table's metadata or protocol, and no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from deltasql.lake.writing import commit_info
from deltasql.log.conflict import Reads
from deltasql.spec.actions import Action, Metadata
from deltasql.spec.protocol import upgraded
from deltasql.spec.schema import parse_schema

if TYPE_CHECKING:
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table


def newest(target: object) -> Snapshot:
    """The table as it is, for a change to begin with."""
    return cast("Table", target).base()


def commit(
    target: object,
    snapshot: Snapshot,
    metadata: Metadata,
    operation: str,
    params: Mapping[str, Any],
    *,
    reads: Reads | None = None,
    asked: Mapping[str, str] | None = None,
    told: Mapping[str, Any] | None = None,
) -> int:
    """Commit new metadata and the protocol it needs, or that the properties `asked` for need."""
    schema = parse_schema(metadata.schema_string)
    needed = upgraded(snapshot.protocol, schema, asked or metadata.configuration)
    actions: list[Action] = [] if metadata == snapshot.metadata else [metadata]
    actions += [] if needed is None else [needed]
    return send(target, snapshot, actions, operation, params, reads or Reads.nothing(), told=told)


def send(
    target: object,
    snapshot: Snapshot,
    actions: Sequence[Action],
    operation: str,
    params: Mapping[str, Any],
    reads: Reads,
    *,
    told: Mapping[str, Any] | None = None,
) -> int:
    """Commit actions, if there are any, with what the caller wants `told` of them."""
    if not actions:
        return snapshot.version
    table = cast("Table", target)
    request = table.request(
        [*actions, *commit_info({}, told)],
        operation=operation,
        operation_params=params,
        reads=reads,
        read_version=snapshot.version,
    )
    done = table.send(request)
    table.mirror_commit(request, done)
    return done.version
