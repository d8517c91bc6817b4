"""The embedded engine: a separate DuckDB for one operation, which spills to disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from deltasql.errors import DeltaSqlError, StoreError, UnsupportedFeatureError, ValidationError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS = 1 << 16
# An instant must not depend on the local zone; the rest keeps expressions from reading files.
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
)
# Otherwise filters are pushed into Arrow, where NaN is neither greatest nor equal to itself.
_NO_PUSHDOWN = "SET disabled_optimizers = 'filter_pullup,filter_pushdown,join_filter_pushdown'"
_AS_WRITTEN = (
    "SET disabled_optimizers = 'filter_pullup,filter_pushdown,join_filter_pushdown,"
    "build_side_probe_side,join_order'"
)


class Engine:
    """Queries over Arrow streams and over tables of their own, in bounded memory."""

    def __init__(self, memory_limit: str, *, keeps_order: bool = False) -> None:
        duckdb = _duckdb()
        self._folder = tempfile.TemporaryDirectory(prefix="deltasql-")
        self._failure: BaseException | None = None
        self._names = 0
        self._is_open = True
        try:
            self._connection: DuckDBPyConnection = duckdb.connect(
                config={
                    "memory_limit": memory_limit,
                    "temp_directory": self._folder.name,
                    "preserve_insertion_order": str(keeps_order).lower(),
                }
            )
            for statement in (*_SETTINGS, _NO_PUSHDOWN):
                self._connection.execute(statement)
        except BaseException:
            self._folder.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        self._connection.close()
        self._folder.cleanup()

    def rows(self, query: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a small answer."""
        with self._translated():
            found: list[tuple[Any, ...]] = self._connection.execute(query, parameters).fetchall()
            return found

    def table(self, query: str) -> pa.Table:
        """The rows of an answer that fits into memory."""
        with self._translated():
            return self._connection.execute(query).to_arrow_table()

    def stream(self, query: str) -> Iterator[pa.RecordBatch]:
        """The rows of an answer of any size, batch by batch; no other query may run meanwhile."""
        with self._translated():
            reader = self._connection.execute(query).to_arrow_reader(BATCH_ROWS)
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                yield batch

    @contextmanager
    def joining_as_written(self) -> Iterator[None]:
        """Build joins on their right side, whatever size the engine estimates."""
        self._connection.execute(_AS_WRITTEN)
        try:
            yield
        finally:
            self._connection.execute(_NO_PUSHDOWN)

    @contextmanager
    def reading(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        """The name of a relation that streams the batches, once."""
        self._names += 1
        name = f"__deltasql_stream_{self._names}"
        reader = pa.RecordBatchReader.from_batches(schema, self._watched(batches))
        self._connection.register(name, reader)
        try:
            yield name
        finally:
            # The reader of a stream may be dropped only after the engine is closed.
            if self._is_open:
                self._connection.unregister(name)

    def _watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # DuckDB would turn an error raised here into text, but callers want the error itself.
        try:
            yield from batches
        except Exception as error:
            self._failure = error
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        duckdb = _duckdb()
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure from None
            if isinstance(error, DeltaSqlError):
                raise
            raise _told(duckdb, error) from None


def _told(duckdb: Any, error: Exception) -> DeltaSqlError:
    cause = str(error).splitlines()[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreError(
            "the operation ran out of memory",
            cause=cause,
            remedy="raise the setting duckdb.memory_limit, or change fewer rows at once",
            is_refusal=True,
        )
    if isinstance(error, duckdb.IOException):
        return StoreError(
            "the operation can't spill to disk",
            cause=cause,
            remedy="make room in the folder for temporary files (TMPDIR)",
            is_refusal=True,
        )
    return ValidationError(
        "an expression can't be evaluated",
        cause=cause,
        remedy="correct the expression, or leave out the rows that it fails on",
    )


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise UnsupportedFeatureError(
            "this operation needs DuckDB",
            cause=str(error),
            remedy="install it: pip install 'deltasql[duckdb]'",
        ) from None
    return duckdb


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as a literal."""
    return "'" + value.replace("'", "''") + "'"
