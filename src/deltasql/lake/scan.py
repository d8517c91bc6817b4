"""The rows of a snapshot, read on demand, in the form that the caller chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasql.data.expressions.conditions import Condition
from deltasql.data.reading.dataset import dataset_of
from deltasql.data.reading.extremes import Extremes
from deltasql.data.reading.polars_predicates import asked_by
from deltasql.data.reading.reader import output_schema, read_files
from deltasql.data.writing.vectors import live_rows
from deltasql.errors import DeltaSqlError, ValidationError
from deltasql.lake.arguments import checked
from deltasql.log.predicates.predicate import And, Constant, Predicate
from deltasql.log.removal import Sorted, sort_by_match
from deltasql.objectstore import ObjectStore
from deltasql.showing.html import failed, html_table
from deltasql.spec.actions import AddFile

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow.dataset as ds

    from deltasql.lake.snapshot import Snapshot


@checked
class Scan:
    """The rows of a snapshot that satisfy a predicate, in the form that the caller chooses."""

    def __init__(
        self,
        snapshot: Snapshot,
        objects: ObjectStore,
        *,
        condition: Condition | None,
        columns: Sequence[str] | None,
        limit: int | None = None,
    ) -> None:
        if limit is not None and limit < 0:
            raise ValidationError(
                f"the limit of a scan can't be {limit}",
                cause="it is how many rows to return at most",
                remedy="give 0 or more, or leave it out for all of them",
            )
        self._limit = limit
        self._snapshot = snapshot
        self._objects = objects
        self._condition = condition
        self._predicate = None if condition is None else condition.predicate
        self._columns = columns

    def __repr__(self) -> str:
        limited = "" if self._limit is None else f", at most {self._limit} rows"
        return f"<Scan of version {self._snapshot.version}: {len(self.schema)} columns{limited}>"

    def _repr_html_(self) -> str:
        shown = Scan(
            self._snapshot,
            self._objects,
            condition=self._condition,
            columns=self._columns,
            limit=10 if self._limit is None else min(10, self._limit),
        )
        try:
            rows = zip(*(map(str, column) for column in shown.to_arrow().columns), strict=True)
            return html_table(self.schema.names, rows, note="up to 10 rows")
        except DeltaSqlError as error:
            return failed(repr(self), error)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return output_schema(self._snapshot.state.schema, self._columns)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, in bounded memory."""
        batches = self._held(self._read(self._snapshot.adds(self._predicate), self._columns))
        return batches if self._limit is None else _first(batches, self._limit)

    def _read(
        self, adds: Iterator[AddFile], columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        condition = self._condition
        if condition is None or condition.is_whole:
            return self._read_columns(adds, columns)
        asked = output_schema(self._snapshot.state.schema, columns).names
        more = [name for name in condition.columns if name not in asked]
        found = condition.filtered(self._read_columns(adds, [*asked, *more]))
        return (batch.select(asked) for batch in found) if more else found

    def _read_columns(
        self, adds: Iterator[AddFile], columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        state = self._snapshot.state
        return read_files(
            self._objects,
            adds,
            schema=state.schema,
            partition_columns=state.partition_columns,
            column_mapping=state.column_mapping,
            columns=columns,
            predicate=self._predicate,
        )

    def _held(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._snapshot.held():
            yield from batches

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_batches(self.to_batches(), schema=self.schema)

    def count(self) -> int:
        """How many rows there are; files whose count the log knows exactly are not read."""
        found = self._count()
        return found if self._limit is None else min(found, self._limit)

    def _count(self) -> int:
        found = self._sorted()
        unread = [(add, live_rows(add)) for add in found.whole]
        partial = [*found.partial, *(add for add, rows in unread if rows is None)]
        read = self._held(self._read(iter(partial), columns=[]))
        known = sum(rows or 0 for _, rows in unread)
        return known + sum(int(batch.num_rows) for batch in read)

    def _sorted(self) -> Sorted:
        """The files whose rows are all wanted, and those that must be read."""
        is_whole = self._condition is None or self._condition.is_whole
        sure = (self._predicate or Constant(value=True)) if is_whole else None
        adds = self._snapshot.adds(self._predicate)
        state = self._snapshot.state
        return sort_by_match(adds, sure, state.schema, state.partition_columns)

    def min_max(self, column: str) -> tuple[Any, Any]:
        """The least and the greatest value of a column; both None if there is none but null.

        Whole numbers, dates and partitions come from the log, other types from the files. NaN is
        the greatest number.
        """
        if self._limit is not None:
            raise ValidationError(
                "a scan with a limit has no minimum and no maximum",
                cause="which rows it returns is undefined",
                remedy="leave limit= out",
            )
        state = self._snapshot.state
        (name,) = output_schema(state.schema, [column]).names
        item = state.schema.field(name)
        assert item is not None
        partitions = {key.lower() for key in state.partition_columns}
        extremes = Extremes(item, is_partition=name.lower() in partitions)
        found = self._sorted()
        unknown = [add for add in found.whole if not extremes.learn(add, live_rows(add))]
        extremes.read(self._held(self._read(iter([*found.partial, *unknown]), [name])))
        return extremes.values

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader of batches."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """The rows as a pandas frame; needs pandas."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """The rows as a Polars frame; needs Polars.

        A lazy frame reads when it is collected: only the columns that its query needs, and only
        the files that its filters leave.
        """
        import polars as pl

        if lazy:
            return self._lazily()
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def _lazily(self) -> pl.LazyFrame:
        import polars as pl
        from polars.io.plugins import register_io_source

        def batches(
            with_columns: list[str] | None,
            predicate: pl.Expr | None,
            n_rows: int | None,
            batch_size: int | None,  # noqa: ARG001 - Polars passes it
        ) -> Iterator[pl.DataFrame]:
            left = n_rows
            asked = None
            # Rows that are counted before they are filtered must all be there.
            if predicate is not None and n_rows is None and self._limit is None:
                asked = asked_by(predicate, self._snapshot.state.schema)
            columns = self._columns if with_columns is None else with_columns
            for batch in self._narrowed(asked, columns).to_batches():
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                frame = frame if left is None else frame.head(left)
                left = None if left is None else left - frame.height
                yield frame if predicate is None else frame.filter(predicate)
                if left == 0:
                    return

        empty = pl.from_arrow(self.schema.empty_table())
        assert isinstance(empty, pl.DataFrame)
        return register_io_source(batches, schema=empty.schema)

    def _narrowed(self, more: Predicate | None, columns: Sequence[str] | None) -> Scan:
        """The same rows with fewer columns, without those that fail another predicate."""
        condition = self._condition
        if more is not None and condition is None:
            condition = Condition("", more, is_whole=True)
        elif more is not None and condition is not None:
            known = () if condition.predicate is None else (condition.predicate,)
            condition = replace(condition, predicate=And((*known, more)))
        return Scan(
            self._snapshot,
            self._objects,
            condition=condition,
            columns=columns,
            limit=self._limit,
        )

    def to_duckdb(self, connection: Any = None) -> Any:
        """The rows as a relation of a DuckDB connection, by default the module's; needs DuckDB."""
        import duckdb

        if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
            raise ValidationError(
                "connection must be a DuckDB connection",
                cause=f"found a value of the type {type(connection).__name__}",
                remedy="pass duckdb.connect(…), or leave it out",
            )
        return (connection or duckdb).from_arrow(self.to_arrow())

    def to_pyarrow_dataset(self) -> ds.Dataset:
        """The files that may hold the rows, as a PyArrow dataset, which reads them itself.

        For local tables without deletion vectors or column mapping; others raise
        `UnsupportedFeatureError`. The condition of the scan only leaves out files; filtering rows
        is up to the dataset.
        """
        if self._limit is not None:
            raise ValidationError(
                "a dataset reads whole files",
                cause=f"the scan has a limit of {self._limit} rows",
                remedy="leave limit= out, and take the dataset's head()",
            )
        return dataset_of(self._objects, self._snapshot.state, self._snapshot.adds(self._predicate))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


def _first(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """The first rows; reads no batch beyond those that hold them."""
    left = limit
    if left == 0:
        return
    for batch in batches:
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if left == 0:
            return
