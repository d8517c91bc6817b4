"""What a condition leaves of files: the rows that stay, and which files it touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.expressions.conditions import Condition, Mask
from deltasql.data.layout import physical_schema
from deltasql.data.reading.reader import read_files
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile


class Remainder:
    """The rows of files that don't satisfy a condition by its mask, read in bounded memory.

    `touched` are the files that held a matching row, known once `rows` was read.
    """

    def __init__(
        self,
        objects: ObjectStore,
        state: TableState,
        condition: Condition | None,
        mask: Mask | None,
        candidates: Sequence[AddFile],
    ) -> None:
        self._objects = objects
        self._state = state
        self._condition = condition
        self._mask = mask
        self._candidates = candidates
        self.touched: list[AddFile] = []

    def rows(self) -> pa.RecordBatchReader:
        """The rows that stay, from files that lose others; untouched files stay as they are."""
        schema = to_arrow(physical_schema(self._state.schema, self._state.column_mapping))
        return pa.RecordBatchReader.from_batches(schema, self._staying())

    def gone(self) -> Iterator[pa.RecordBatch]:
        """The rows that the touched files lose."""
        return self._matching(self.touched, None)

    def _staying(self) -> Iterator[pa.RecordBatch]:
        if self._condition is None or self._mask is None:
            return
        for add in self._candidates:
            # First read only what the condition names: most files that may match do not.
            if next(self._matching([add], self._condition.columns), None) is None:
                continue
            self.touched.append(add)
            for batch in self._read([add]):
                # A row for which the condition is null does not match.
                kept = batch.filter(pc.invert(self._mask(batch)))
                if kept.num_rows:
                    yield kept

    def _matching(
        self, files: Sequence[AddFile], columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        if self._condition is None or self._mask is None:
            return
        for batch in self._read(files, columns=columns, predicate=self._condition.predicate):
            found = batch if self._condition.is_whole else batch.filter(self._mask(batch))
            if found.num_rows:
                yield found

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
