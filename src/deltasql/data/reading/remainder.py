"""What a condition leaves of files: the rows that stay, and which files it touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.layout import physical_schema
from deltasql.data.reading.reader import read_files
from deltasql.data.reading.row_filter import row_mask
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile


class Remainder:
    """The rows of files that don't satisfy a condition, read in bounded memory.

    `touched` are the files that held a matching row, known once `rows` was read.
    """

    def __init__(
        self,
        objects: ObjectStore,
        state: TableState,
        predicate: Predicate | None,
        candidates: Sequence[AddFile],
    ) -> None:
        self._objects = objects
        self._state = state
        self._predicate = predicate
        self._candidates = candidates
        self.touched: list[AddFile] = []

    def rows(self) -> pa.RecordBatchReader:
        """The rows that stay, from files that lose others; untouched files stay as they are."""
        schema = to_arrow(physical_schema(self._state.schema, self._state.column_mapping))
        return pa.RecordBatchReader.from_batches(schema, self._staying())

    def gone(self) -> Iterator[pa.RecordBatch]:
        """The rows that the touched files lose."""
        return self._read(self.touched, predicate=self._predicate)

    def _staying(self) -> Iterator[pa.RecordBatch]:
        if self._predicate is None:
            return
        for add in self._candidates:
            # First read only what the condition names: most files that may match do not.
            matches = self._read([add], columns=[], predicate=self._predicate)
            if next(matches, None) is None:
                continue
            self.touched.append(add)
            for batch in self._read([add]):
                # A row for which the condition is null does not match.
                kept = batch.filter(pc.invert(row_mask(self._predicate, batch)))
                if kept.num_rows:
                    yield kept

    def _read(
        self,
        files: Sequence[AddFile],
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        state = self._state
        return read_files(
            self._objects,
            files,
            schema=state.schema,
            partition_columns=state.partition_columns,
            column_mapping=state.column_mapping,
            columns=columns,
            predicate=predicate,
        )
