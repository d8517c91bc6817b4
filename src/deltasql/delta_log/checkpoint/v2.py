"""V2 checkpoints: a small top file, and the file actions in sidecars beside it.

For tables with the feature v2Checkpoint whose `delta.checkpointPolicy` is `v2`. Every file
action is in a sidecar, never some here and some there (rule 31).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.delta_log.checkpoint.columns import table_actions
from deltasql.delta_log.checkpoint.file import ROW_GROUP_ROWS, ActionFile, Sink
from deltasql.delta_log.checkpoint.schema import (
    CHECKPOINT_METADATA,
    CheckpointShape,
    shape_of,
)
from deltasql.delta_log.checkpoint.sidecars import (
    SIDECAR_ACTIONS,
    Sidecar,
    Stretch,
    actions_of,
)
from deltasql.delta_log.checkpoint.writing import (
    CheckpointSource,
    CheckpointSummary,
    add_columns,
    remove_columns,
)
from deltasql.delta_log.names import sidecar_name, v2_checkpoint_name
from deltasql.errors import MirrorError, ValidationError
from deltasql.log.state import TableState
from deltasql.spec.properties import CHECKPOINT_POLICY
from deltasql.spec.protocol import check_readable

OpenSink: TypeAlias = Callable[[str], AbstractContextManager[Sink]]


@dataclass(frozen=True, slots=True, kw_only=True)
class V2Checkpoint:
    """What was written: the names are relative to `_delta_log`."""

    summary: CheckpointSummary
    name: str
    sidecars: tuple[str, ...]


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
    stretches: Sequence[Stretch] | None = None,
    sidecar_actions: int = SIDECAR_ACTIONS,
) -> V2Checkpoint:
    """Write the sidecars and, when all of them are closed, the top file that names them.

    `open_sink` takes a name relative to `_delta_log`; the object becomes visible when its block
    ends, or not at all if the block raises. `modification_time` is that of the sidecar actions.
    Sidecars that a stretch keeps are named and not written; without stretches, all are written.
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
    place = _Place(open_sink, shape, new_uuid, modification_time, sidecar_actions)
    if stretches is None:
        with _SidecarWriter(place, "add") as adds_writer:
            for column in add_columns(source.files, shape):
                adds_writer.write(column)
        sidecars = adds_writer.written
    else:
        sidecars = _write_stretches(place, source, stretches)
    with _SidecarWriter(place, "remove") as removes_writer:
        for column in remove_columns(source.tombstones):
            removes_writer.write(column)
    sidecars += removes_writer.written
    name = v2_checkpoint_name(state.version, new_uuid())
    columns = {
        "checkpointMetadata": pa.array([{"version": state.version}], CHECKPOINT_METADATA),
        **table_actions(state, source.txns, source.domains),
        "sidecar": actions_of(sidecars),
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


def _write_stretches(
    place: _Place, source: CheckpointSource, stretches: Sequence[Stretch]
) -> list[Sidecar]:
    """Write the stretches that keep nothing, all in one pass over the files."""
    found = [item for stretch in stretches if stretch.kept for item in _counted(stretch)]
    missing = [stretch for stretch in stretches if not stretch.kept]
    with ExitStack() as stack:
        writers = [
            stack.enter_context(_StretchWriter(place, stretch, stretch.tags(place.shape)))
            for stretch in missing
        ]
        for batch in source.files if writers else ():
            for writer in writers:
                writer.take(batch)
    for stretch, writer in zip(missing, writers, strict=True):
        _must_be_whole(stretch, writer.written)
        found += writer.written
    return found


def _must_be_whole(stretch: Stretch, written: Sequence[Sidecar]) -> None:
    """Raise `MirrorError` unless the files are those that were counted."""
    if sum(item.adds for item in written) != stretch.files:
        raise MirrorError(
            "the checkpoint was not written: its files changed in the meantime",
            cause=f"versions {stretch.first} to {stretch.last} had {stretch.files} live files",
            remedy="run lake.check(); the checkpoint is retried",
        )


def _counted(stretch: Stretch) -> Iterator[Sidecar]:
    """The sidecars that a stretch keeps; the first stands for the files of all of them."""
    for number, item in enumerate(stretch.kept):
        yield replace(item, adds=0 if number else stretch.files)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where new sidecars go, and what they are like."""

    open_sink: OpenSink
    shape: CheckpointShape
    new_uuid: Callable[[], str]
    modification_time: int
    most: int


class _SidecarWriter:
    """Writes actions of one kind into one sidecar after the other; they are `written` when its
    block ends, and the open one is not if the block raises.
    """

    def __init__(self, place: _Place, kind: str, tags: Mapping[str, str] | None = None) -> None:
        self._place = place
        self._kind = kind
        self._tags = tags
        self._stack = ExitStack()
        self._name = ""
        self._file: ActionFile | None = None
        self.written: list[Sidecar] = []

    def write(self, column: pa.Array) -> None:
        """Write a row group."""
        if self._file is None:
            self._name = sidecar_name(self._place.new_uuid())
            sink = self._stack.enter_context(self._place.open_sink(self._name))
            self._file = self._stack.enter_context(ActionFile(sink, self._place.shape.sidecar()))
        self._file.write({self._kind: column})
        if self._file.actions.total() >= self._place.most:
            self._end()

    def _end(self) -> None:
        file, self._file = self._file, None
        self._stack.close()
        if file is not None:
            self.written.append(
                Sidecar(
                    name=self._name,
                    size_in_bytes=file.size_in_bytes,
                    modification_time=self._place.modification_time,
                    tags=self._tags,
                    adds=file.actions["add"],
                    removes=file.actions["remove"],
                )
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._end()
        else:
            self._stack.__exit__(kind, error, trace)


class _StretchWriter(_SidecarWriter):
    """Writes the files of a stretch, from batches that have those of all."""

    def __init__(self, place: _Place, stretch: Stretch, tags: Mapping[str, str]) -> None:
        super().__init__(place, "add", tags)
        self._stretch = stretch
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Take what a batch has of the stretch."""
        added = batch.column("version")
        own = batch.filter(
            pc.and_(
                pc.greater_equal(added, self._stretch.first),
                pc.less_equal(added, self._stretch.last),
            )
        )
        if own.num_rows:
            self._held.append(own)
            self._rows += own.num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        held, self._held, self._rows = self._held, [], 0
        for column in add_columns(held, self._place.shape):
            self.write(column)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        super().__exit__(kind, error, trace)
