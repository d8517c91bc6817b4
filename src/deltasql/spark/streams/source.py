"""`readStream.format("deltasql")`: a table as a stream, on the data source route."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from deltasql.data.reading.reader import read_files
from deltasql.errors import TableNotFoundError, ValidationError
from deltasql.objectstore import open_store
from deltasql.objectstore.sources import Sources
from deltasql.spark.datasource.source import TASK_BYTES, as_spark_wants
from deltasql.spark.sessions import profiles
from deltasql.spark.streams.files import Position, StreamFiles, StreamOptions, bins, state_of
from deltasql.spec.protocol import check_readable
from deltasql.store.upkeep.interface import STREAM

if TYPE_CHECKING:
    from pyspark.sql.types import StructType as SparkStruct

    from deltasql.lake.catalog import Lake
    from deltasql.spark.datasource.source import DeltaSqlSource
    from deltasql.spec.actions import AddFile

# The name of the table's own id in an offset.
_TABLE = "table"


@dataclass
class StreamPart(InputPartition):
    """The files that one task reads."""

    kind: str
    adds: tuple[AddFile, ...]
    sources: tuple[str, ...] = ()


class DeltaSqlStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is added to a table, or its change feed."""

    def __init__(self, source: DeltaSqlSource, schema: SparkStruct) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._source = source
        self._columns = schema.names
        self._output = to_arrow_schema(schema, timezone="UTC")
        self._options = StreamOptions.of(dict(source.options))
        self._lake: Lake | None = None
        self._files: StreamFiles | None = None
        self._last: int | None = None
        # What keeps vacuum from files that the stream has not read, and since which version.
        self._held: tuple[int, ExitStack] | None = None
        with source.open() as lake:
            snapshot = source.snapshot_in(lake)
            self._state = snapshot.state
            self._location = lake.table(source.table_name).location
        check_readable(self._state.protocol)

    def __getstate__(self) -> dict[str, Any]:
        # Executors get no connection, and no secret.
        return {**self.__dict__, "_lake": None, "_files": None, "_held": None}

    # --- on the driver --------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names
        """Where a new stream begins."""
        position = self._open().first()
        self._hold(position)
        return self._offset(position)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The number of files in a batch."""
        return ReadMaxFiles(self._options.max_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to the version that is the newest now."""
        self._open()
        self._last = self._head()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next batch reads."""
        most = self._options.max_files
        if isinstance(limit, ReadMaxFiles):
            most = limit.max_files
        head = self._last if self._last is not None else self._head()
        every = isinstance(limit, ReadAllAvailable)
        begin = self._position(start)
        return self._offset(self._open().after(begin, most=None if every else most, head=head))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The files of a batch."""
        begin = self._position(start)
        self._hold(begin)
        files = self._open().between(begin, self._position(end))
        assert self._lake is not None
        sources = self._lake.table(self._source.table_name).sources
        return [StreamPart(kind, adds, sources) for kind, adds in bins(files, TASK_BYTES)]

    def commit(self, end: dict[str, Any]) -> None:
        """Hold what was read no longer."""
        # Of a table that was dropped, the next question says so.
        with suppress(TableNotFoundError):
            self._hold(self._position(end))

    def stop(self) -> None:
        """Release the connection."""
        if self._held is not None:
            self._held[1].close()
            self._held = None
        if self._lake is not None:
            self._lake.close()
            self._lake = self._files = None

    def _hold(self, position: Position) -> None:
        """Hold what the stream reads from a position on, and nothing before it."""
        version = position.held_version
        if self._held is not None and self._held[0] == version:
            return
        files = self._open()
        assert self._lake is not None
        before, stack = self._held, ExitStack()
        stack.enter_context(self._lake.presence.held(files.table_id, version, STREAM))
        self._held = (version, stack)
        if before is not None:
            before[1].close()

    def _open(self) -> StreamFiles:
        if self._files is None:
            self._lake = self._source.open()
            table = self._lake.table(self._source.table_name)
            self._files = StreamFiles(table, self._state, self._options)
        return self._files

    def _head(self) -> int:
        self._files = self._open()
        assert self._lake is not None
        table = self._lake.table(self._source.table_name)
        if table.table_id != self._files.table_id:
            raise _another_table(table.name)
        return table.version

    def _offset(self, position: Position) -> dict[str, Any]:
        return {**position.as_offset(), _TABLE: self._state.metadata.id}

    def _position(self, offset: dict[str, Any]) -> Position:
        # Checkpoints of earlier releases don't name the table.
        if offset.get(_TABLE, self._state.metadata.id) != self._state.metadata.id:
            raise _another_table(self._source.table_name)
        return Position.of(offset)

    # --- on executors ---------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files."""
        assert isinstance(partition, StreamPart)
        storage = profiles.storage_options(self._source.profile, self._source.kept)
        state = state_of(partition.kind, self._state)
        batches = read_files(
            open_store(self._location, storage, Sources(lambda: partition.sources)),
            partition.adds,
            schema=state.schema,
            partition_columns=state.partition_columns,
            column_mapping=state.column_mapping,
            columns=self._columns,
        )
        for batch in batches:
            if batch.num_rows:
                yield as_spark_wants(batch, self._output)


def _another_table(name: str) -> ValidationError:
    return ValidationError(
        f"{name} is not the table that the stream has read so far",
        cause="that one was dropped, and another was created under its name",
        remedy="start the stream with a new checkpoint",
    )
