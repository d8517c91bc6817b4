"""Ids of rows that move to other files: values in columns that no schema shows.

Until a row moves, its id is its file's first id plus its position, and the version that last
changed it is its file's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.reading.deletion import RowDeleter, deleted_in
from deltasql.errors import LogFormatError
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.properties import PHYSICAL_NAME, ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from deltasql.spec.schema import Primitive, StructField

_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class RowIds:
    """The two columns, id and version; none if a table does not track its rows."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, state: TableState) -> RowIds:
        """The columns of a table."""
        if not state.has_row_ids:
            return cls()
        try:
            return cls(
                (state.properties[ROW_ID_COLUMN], state.properties[ROW_COMMIT_VERSION_COLUMN])
            )
        except KeyError as error:
            raise LogFormatError(
                "the table tracks its rows and does not say in which columns",
                cause=f"its properties lack {error}",
                remedy="correct the table's metaData",
            ) from None

    @property
    def fields(self) -> tuple[StructField, ...]:
        """The columns as a reader looks them up: a file may lack them."""
        return tuple(
            StructField(name, Primitive("long"), True, {PHYSICAL_NAME: name})  # noqa: FBT003
            for name in self.names
        )

    def filled(
        self, batches: Iterator[pa.RecordBatch], add: AddFile, objects: ObjectStore
    ) -> Iterator[pa.RecordBatch]:
        """The live rows of a file, with the ids that they had there."""
        if add.base_row_id is None or add.default_row_commit_version is None:
            raise LogFormatError(
                f"the file {add.path} has no row ids",
                cause="the table tracks its rows, and its add action lacks baseRowId or "
                "defaultRowCommitVersion",
                remedy="turn row tracking off and on again: that numbers what lacks ids",
            )
        positions = _Positions(_live(add, objects))
        id_name, version_name = self.names
        for batch in batches:
            own = pc.add(positions.take(batch.num_rows), pa.scalar(add.base_row_id, pa.int64()))
            version = pa.scalar(add.default_row_commit_version, pa.int64())
            yield _with(
                _with(batch, id_name, pc.coalesce(batch.column(id_name), own)),
                version_name,
                pc.coalesce(batch.column(version_name), version),
            )


def _with(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), values)


def _live(add: AddFile, objects: ObjectStore) -> Iterator[pa.Array]:
    """The positions of a file's live rows, in pieces; endless: the caller stops."""
    rows = record_count(load_stats(add.stats))
    deleter = RowDeleter(
        deleted_in(objects, add), rows=1 << 62 if rows is None else rows, path=add.path
    )
    start = 0
    while True:
        piece = pa.arange(start, start + _AT_ONCE)
        mask = deleter.keep_mask(start, _AT_ONCE)
        yield piece if mask is None else piece.filter(mask)
        start += _AT_ONCE


class _Positions:
    """Positions in pieces of any size."""

    def __init__(self, pieces: Iterator[pa.Array]) -> None:
        self._pieces = pieces
        self._held: list[pa.Array] = []
        self._count = 0

    def take(self, count: int) -> pa.Array:
        """The next `count` positions."""
        while self._count < count:
            piece = next(self._pieces)
            self._held.append(piece)
            self._count += len(piece)
        whole = pa.concat_arrays(self._held)
        self._held, self._count = [whole.slice(count)], self._count - count
        return whole.slice(0, count)
