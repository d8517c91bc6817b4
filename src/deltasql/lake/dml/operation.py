"""One operation on the rows of a table: what it reads, removes and writes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from deltasql.commit.discarding import Abandon
from deltasql.data.conform import conform
from deltasql.data.layout import Layout, layout_of
from deltasql.data.reading.placed import PlacedRows, id_columns
from deltasql.data.writing.change_files import ChangeWriter
from deltasql.data.writing.lengths import check_lengths
from deltasql.data.writing.properties import FileOptions
from deltasql.data.writing.vectors import Mark, row_count, with_old, write_vectors
from deltasql.data.writing.writer import PLAIN, NewFile, write_files
from deltasql.lake import writing
from deltasql.lake.dml.metrics import FileChanges
from deltasql.lake.snapshot import Snapshot
from deltasql.log.conflict import Reads
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.removal import Removable, removes, rewritten
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import Action, AddFile, CdcFile
from deltasql.spec.schema import StructType, parse_schema, render_schema

Batches = Iterable[pa.RecordBatch]
Places = Mapping[int, "array[int]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A table at the snapshot that an operation works on."""

    objects: ObjectStore
    snapshot: Snapshot
    abandon: Abandon
    options: FileOptions = PLAIN

    @property
    def state(self) -> TableState:
        """Metadata and protocol."""
        return self.snapshot.state

    def with_state(self, state: TableState) -> TableAt:
        """The same table under other metadata, for example with new columns."""
        return replace(self, snapshot=self.snapshot.with_state(state))

    @property
    def rows(self) -> PlacedRows:
        """A reader of its rows with their places."""
        return PlacedRows(self.objects, self.state)

    @property
    def hidden(self) -> list[str]:
        """The row id columns, if the table tracks its rows."""
        return [item.name for item in id_columns(self.state)]


class RowFiles:
    """Takes rows out of files and writes others; keeps what it wrote for the commit."""

    def __init__(self, table: TableAt) -> None:
        self._table = table
        self.gone: list[Removable] = []
        self.added: list[AddFile] = []
        self.changes: list[CdcFile] = []
        self.files: list[NewFile] = []
        self.copied = 0

    @property
    def has_feed(self) -> bool:
        """Whether changes are recorded row by row."""
        return self._table.state.has_change_feed

    @contextmanager
    def or_nothing(self) -> Iterator[None]:
        """Delete what was written if the operation fails half-way."""
        try:
            yield
        except Exception:
            self._table.abandon([file.path for file in self.files])
            raise

    def replace(
        self, candidates: Sequence[AddFile], lost: Places, *new: Callable[[], Batches]
    ) -> list[list[AddFile]]:
        """Take rows out of the candidates, given by file number, and write new ones.

        Returns the files of each kind of new rows, if a change feed has to report them.
        """
        marked = {
            number: rows for number, rows in lost.items() if self._can_mark(candidates[number])
        }
        copied = {number: rows for number, rows in lost.items() if number not in marked}
        self._mark(candidates, marked)
        kept = self._kept(candidates, copied)
        self.gone += rewritten(candidates[number] for number in lost)
        if self.has_feed:
            # Separate files: the feed reads inserted and updated rows from them.
            self._write(kept)
            return [self._write(self._fitted(batches())) for batches in new]
        self._write(chain(kept, *(self._fitted(batches()) for batches in new)))
        return []

    def take_whole(self, files: Sequence[Removable]) -> None:
        """Remove files that lose all of their rows."""
        self.gone += files

    def write_changes(self, *parts: tuple[str, Iterator[pa.RecordBatch]]) -> None:
        """Write rows for the feed, with their kind of change."""
        writer = self.feed()
        found = writer.write(*parts)
        self.changes += found
        self.files += found

    def feed(self) -> ChangeWriter:
        """The writer of the change feed."""
        table = self._table
        return ChangeWriter(
            table.objects, table.state, new_id=writing.new_id, now_ms=writing.now_ms
        )

    def rows_at(self, candidates: Sequence[AddFile], places: Places) -> Iterator[pa.RecordBatch]:
        """Rows of the candidates at some places, in the table's schema."""
        width = len(self._table.state.schema.fields)
        for batch in self._table.rows.read(candidates, only=places):
            yield batch.select(list(range(width)))

    # --- how rows go ----------------------------------------------------------------------

    def _can_mark(self, add: AddFile) -> bool:
        return self._table.state.writes_deletion_vectors and row_count(add) is not None

    def _mark(self, candidates: Sequence[AddFile], lost: Places) -> None:
        objects = self._table.objects
        marks = [
            Mark(candidates[number], with_old(objects, candidates[number], rows))
            for number, rows in lost.items()
        ]
        added, files = write_vectors(objects, marks, writing.new_id)
        self.added += added
        self.files += files

    def _kept(self, candidates: Sequence[AddFile], lost: Places) -> Iterator[pa.RecordBatch]:
        """The rows that stay, of files that lose others and are rewritten."""
        objects = self._table.objects
        without = {
            number: with_old(objects, candidates[number], rows) for number, rows in lost.items()
        }
        partial = [
            number for number, rows in without.items() if len(rows) != row_count(candidates[number])
        ]
        files = [candidates[number] for number in partial]
        left = {at: without[number] for at, number in enumerate(partial)}
        return self._counted(self._table.rows.read(files, without=left, ids=True))

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.copied += batch.num_rows
            # Drop the two columns that hold the row's place.
            yield batch.select(list(range(batch.num_columns - 2)))

    def _fitted(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """New rows in the table's types; refuses missing required values and overlong texts."""
        layout = row_layout(self._table.state)
        for batch in batches:
            rows = conform(pa.table(batch), layout.schema, arrow_schema=layout.logical)
            yield from check_lengths(rows, layout.limits).to_batches()

    def _write(self, batches: Batches) -> list[AddFile]:
        layout = row_layout(self._table.state)
        written = write_files(
            self._table.objects,
            layout=layout,
            data=pa.RecordBatchReader.from_batches(layout.logical, _under(batches, layout.logical)),
            new_id=writing.new_id,
            now_ms=writing.now_ms,
            options=self._table.options,
            abandon=self._table.abandon,
        )
        self.added += written
        self.files += written
        return written

    # --- what it comes to ---------------------------------------------------------------

    def changed(self) -> FileChanges:
        """Which files were removed and which added."""
        return FileChanges(self.gone, self.added, self.changes)

    def outcome(
        self,
        *,
        operation: str,
        params: Mapping[str, Any],
        predicate: Predicate | None,
        used: Iterable[AddFile],
        changes: Sequence[Action] = (),
        metrics: Mapping[str, int],
    ) -> writing.Write:
        """What the operation commits; an empty write if nothing changed."""
        removed = removes(self.gone, deletion_timestamp=writing.now_ms())
        actions: list[Action] = []
        if removed or self.added:
            actions = [*changes, *removed, *self.added, *self.changes]
        keys = frozenset((add.path, add.dv_id) for add in used)
        return writing.Write(
            actions=actions,
            operation=operation,
            operation_params=params,
            reads=Reads.all() if predicate is None else Reads.where(predicate, files=keys),
            read_version=self._table.snapshot.version,
            files=self.files,
            metrics=metrics,
        )


def _under(batches: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def row_layout(state: TableState) -> Layout:
    """How moved rows lie in files: with their ids, if the table tracks them."""
    base = layout_of(state.metadata)
    hidden = id_columns(state)
    if not hidden:
        return base
    schema = StructType((*parse_schema(state.metadata.schema_string).fields, *hidden))
    full = layout_of(replace(state.metadata, schema_string=render_schema(schema)))
    return replace(full, leaves=base.leaves)
