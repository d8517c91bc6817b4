"""Rows with their places: which file of an operation they are in, and where in it.

If rows are tracked, they come with their ids, too: a row that moved has its id in the column that
the table's properties name; any other row has its file's first id plus its place.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.layout import physical_schema
from deltasql.data.reading.reader import DEFAULT_BATCH_SIZE, read_ahead
from deltasql.data.reading.scan import ROW, Scan, scan_file
from deltasql.errors import UnsupportedFeatureError
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.predicates.predicate import columns as predicate_columns
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.properties import (
    FIELD_ID,
    PHYSICAL_NAME,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
)
from deltasql.spec.schema import Primitive, StructField, StructType

FILE = "__deltasql_file"
PLACE = (pa.field(ROW, pa.int64()), pa.field(FILE, pa.int32()))
# Above every id that a table gives to its columns, and next to that of change files.
_FIRST_ID = (1 << 30) + 1


def id_columns(state: TableState) -> tuple[StructField, ...]:
    """The hidden columns of a table that tracks its rows: the id, and the version of a change."""
    if not state.has_row_ids:
        return ()
    if state.column_mapping == "id":
        raise UnsupportedFeatureError(
            "rows of this table can't be moved without Spark",
            cause="it tracks its rows, and maps its columns by id",
            remedy="use Spark for this operation",
        )
    names = (state.properties[ROW_ID_COLUMN], state.properties[ROW_COMMIT_VERSION_COLUMN])
    return tuple(
        StructField(name, Primitive("long"), metadata=_mapping(state, name, number))
        for number, name in enumerate(names)
    )


def _mapping(state: TableState, name: str, number: int) -> dict[str, str | int]:
    if state.column_mapping == "none":
        return {}
    return {FIELD_ID: _FIRST_ID + number, PHYSICAL_NAME: name}


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Reads rows of a table's files together with their places."""

    objects: ObjectStore
    state: TableState

    def schema(self, columns: Sequence[str] | None, *, ids: bool = False) -> pa.Schema:
        """The schema of what `read` yields: the columns, the ids, the row, the file."""
        chosen = to_arrow(StructType(self._fields(columns, ids=ids)))
        return pa.schema([*chosen, *PLACE])

    def read(
        self,
        files: Sequence[AddFile],
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        only: Mapping[int, array[int]] | None = None,
        without: Mapping[int, array[int]] | None = None,
        ids: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Live rows of some files; `only` and `without` are rows by the number of their file."""
        scan = self._scan(columns, predicate, ids=ids)
        numbers = {id(add): number for number, add in enumerate(files)}
        hidden = id_columns(self.state) if ids else ()

        def rows(add: AddFile) -> Iterator[pa.RecordBatch]:
            number = numbers[id(add)]
            found = scan_file(
                self.objects,
                add,
                scan,
                without=None if without is None else without.get(number),
                only=None if only is None else only.get(number),
            )
            for batch in found:
                known = _with_ids(batch, add, [item.name for item in hidden])
                file = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
                yield known.append_column(FILE, file)

        wanted = [add for add in files if only is None or numbers[id(add)] in only]
        return read_ahead(self.objects, iter(wanted), rows)

    def _fields(self, columns: Sequence[str] | None, *, ids: bool) -> tuple[StructField, ...]:
        fields = self.state.schema.fields
        if columns is not None:
            by_name = {item.name: item for item in fields}
            fields = tuple(by_name[name] for name in columns)
        return (*fields, *(id_columns(self.state) if ids else ()))

    def _scan(
        self, columns: Sequence[str] | None, predicate: Predicate | None, *, ids: bool
    ) -> Scan:
        state = self.state
        hidden = id_columns(state) if ids else ()
        full = StructType((*state.schema.fields, *hidden))
        names = [item.name for item in self._fields(columns, ids=ids)]
        used = {path[0] for path in predicate_columns(predicate)} if predicate else set()
        physical = physical_schema(full, state.column_mapping)
        return Scan.of(
            physical,
            columns=names,
            extra=[item.name for item in physical.fields if item.name in used - set(names)],
            partition_columns=state.partition_columns,
            mode=state.column_mapping,
            predicate=predicate,
            batch_size=DEFAULT_BATCH_SIZE,
            placed=True,
        )


def _with_ids(batch: pa.RecordBatch, add: AddFile, names: Sequence[str]) -> pa.RecordBatch:
    """Rows that never moved get their ids from the file; a transaction's own have none yet."""
    if not names or add.base_row_id is None:
        return batch
    first = pc.add(batch.column(ROW), pa.scalar(add.base_row_id, pa.int64()))
    version = pa.scalar(add.default_row_commit_version, pa.int64())
    for name, fallback in zip(names, (first, version), strict=True):
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(
            at, batch.schema.field(at), pc.coalesce(batch.column(at), fallback)
        )
    return batch


def as_places(values: pa.Array) -> array[int]:
    """Row numbers as `scan_file` expects them."""
    found = array("Q")
    if len(values):
        found.frombytes(memoryview(values.buffers()[1])[values.offset * 8 :][: len(values) * 8])
    return found
