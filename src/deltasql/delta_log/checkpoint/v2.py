"""V2 checkpoints: a small top file, and the file actions in sidecars beside it.

For tables with the feature v2Checkpoint whose `delta.checkpointPolicy` is `v2`. Every file
action is in a sidecar, never some here and some there (rule 31).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

import pyarrow as pa

from deltasql.delta_log.checkpoint.columns import table_actions
from deltasql.delta_log.checkpoint.file import ActionFile, Sink
from deltasql.delta_log.checkpoint.schema import (
    CHECKPOINT_METADATA,
    SIDECAR,
    CheckpointShape,
    shape_of,
)
from deltasql.delta_log.checkpoint.writing import (
    CheckpointSource,
    CheckpointSummary,
    add_columns,
    remove_columns,
)
from deltasql.delta_log.names import SIDECARS, sidecar_name, v2_checkpoint_name
from deltasql.errors import ValidationError
from deltasql.log.state import TableState
from deltasql.spec.properties import CHECKPOINT_POLICY
from deltasql.spec.protocol import check_readable

SIDECAR_ACTIONS: Final = 500_000

OpenSink: TypeAlias = Callable[[str], AbstractContextManager[Sink]]


@dataclass(frozen=True, slots=True, kw_only=True)
class V2Checkpoint:
    """What was written: the names are relative to `_delta_log`."""

    summary: CheckpointSummary
    name: str
    sidecars: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sidecar:
    name: str
    adds: int
    removes: int
    size_in_bytes: int


def uses_v2(state: TableState) -> bool:
    """Whether the table asks for V2 checkpoints."""
    policy = state.properties.get(CHECKPOINT_POLICY, "classic")
    return policy.lower() == "v2" and "v2Checkpoint" in state.writer_features


def write_v2_checkpoint(
    open_sink: OpenSink,
    source: CheckpointSource,
    *,
    new_uuid: Callable[[], str],
    modification_time: int,
    sidecar_actions: int = SIDECAR_ACTIONS,
) -> V2Checkpoint:
    """Write the sidecars and, when all of them are closed, the top file that names them.

    `open_sink` takes a name relative to `_delta_log`; the object becomes visible when its block
    ends, or not at all if the block raises. `modification_time` is that of the sidecar actions.
    """
    state = source.state
    check_readable(state.protocol)
    if "v2Checkpoint" not in state.writer_features:
        raise ValidationError(
            "the table can't have V2 checkpoints",
            cause="its protocol lacks the feature v2Checkpoint",
            remedy="write a classic checkpoint, or set delta.checkpointPolicy=v2 first",
        )
    shape = shape_of(state)
    sidecars = list(_write_sidecars(open_sink, source, shape, new_uuid, sidecar_actions))
    name = v2_checkpoint_name(state.version, new_uuid())
    columns = {
        "checkpointMetadata": pa.array([{"version": state.version}], CHECKPOINT_METADATA),
        **table_actions(state, source.txns, source.domains),
        "sidecar": _sidecar_actions(sidecars, modification_time),
    }
    with open_sink(name) as sink, ActionFile(sink, shape.v2()) as file:
        file.write(columns)
    adds = sum(item.adds for item in sidecars)
    summary = CheckpointSummary(
        version=state.version,
        size=file.actions.total() + adds + sum(item.removes for item in sidecars),
        size_in_bytes=file.size_in_bytes + sum(item.size_in_bytes for item in sidecars),
        num_of_add_files=adds,
    )
    return V2Checkpoint(summary=summary, name=name, sidecars=tuple(item.name for item in sidecars))


def _write_sidecars(
    open_sink: OpenSink,
    source: CheckpointSource,
    shape: CheckpointShape,
    new_uuid: Callable[[], str],
    most: int,
) -> Iterator[_Sidecar]:
    columns = chain(
        (("add", column) for column in add_columns(source.files, shape)),
        (("remove", column) for column in remove_columns(source.tombstones)),
    )
    waiting = next(columns, None)
    while waiting is not None:
        name = sidecar_name(new_uuid())
        with open_sink(name) as sink, ActionFile(sink, shape.sidecar()) as file:
            while waiting is not None and file.actions.total() < most:
                kind, column = waiting
                file.write({kind: column})
                waiting = next(columns, None)
        yield _Sidecar(name, file.actions["add"], file.actions["remove"], file.size_in_bytes)


def _sidecar_actions(sidecars: list[_Sidecar], modification_time: int) -> pa.Array:
    return pa.array(
        [
            {
                "path": item.name.removeprefix(f"{SIDECARS}/"),
                "sizeInBytes": item.size_in_bytes,
                "modificationTime": modification_time,
            }
            for item in sidecars
        ],
        SIDECAR,
    )
