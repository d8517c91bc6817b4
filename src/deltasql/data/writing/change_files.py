"""Files of row changes, for the change data feed: deleted rows and new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from deltasql.data.layout import Layout, layout_of
from deltasql.data.reading.reader import read_files
from deltasql.data.writing.writer import CHANGES, write_files
from deltasql.log.feed import CHANGE_TYPE
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile, CdcFile
from deltasql.spec.properties import FIELD_ID, NUM_INDEXED_COLUMNS, PHYSICAL_NAME, STATS_COLUMNS
from deltasql.spec.schema import Primitive, StructField, StructType, render_schema

# Above every id that a table gives to its columns; Delta's own files have no id there.
_CHANGE_TYPE_ID = 1 << 30

Batches = Iterator[pa.RecordBatch]


class ChangeWriter:
    """Writes the rows of files as changes of a table."""

    def __init__(
        self,
        objects: ObjectStore,
        state: TableState,
        *,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._objects = objects
        self._state = state
        self._new_id = new_id
        self._now_ms = now_ms

    def rows(self, files: Iterable[AddFile], predicate: Predicate | None = None) -> Batches:
        """The rows of files, or those that satisfy a predicate."""
        state = self._state
        return read_files(
            self._objects,
            files,
            schema=state.schema,
            partition_columns=state.partition_columns,
            column_mapping=state.column_mapping,
            predicate=predicate,
        )

    def write(self, *parts: tuple[str, Batches]) -> list[CdcFile]:
        """Write rows with their kind of change: ("delete", rows), ("insert", …)."""
        layout = _layout(self._state)
        written = write_files(
            self._objects,
            layout=layout,
            data=pa.RecordBatchReader.from_batches(layout.logical, _marked(parts, layout.logical)),
            new_id=self._new_id,
            now_ms=self._now_ms,
            naming=CHANGES,
        )
        return [
            CdcFile(path=item.path, size=item.size, partition_values=item.partition_values)
            for item in written
        ]


def _marked(parts: Iterable[tuple[str, Batches]], schema: pa.Schema) -> Batches:
    for kind, batches in parts:
        for batch in batches:
            change = pa.repeat(pa.scalar(kind, pa.string()), batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, change], schema=schema)


def _layout(state: TableState) -> Layout:
    """The table's layout with one column more, and without stats, which nobody uses."""
    mapped = {FIELD_ID: _CHANGE_TYPE_ID, PHYSICAL_NAME: CHANGE_TYPE}
    kind = StructField(
        CHANGE_TYPE, Primitive("string"), metadata={} if state.column_mapping == "none" else mapped
    )
    configuration = {**state.properties, NUM_INDEXED_COLUMNS: "0"}
    configuration.pop(STATS_COLUMNS, None)
    schema = StructType((*state.schema.fields, kind))
    return layout_of(
        replace(state.metadata, schema_string=render_schema(schema), configuration=configuration)
    )
