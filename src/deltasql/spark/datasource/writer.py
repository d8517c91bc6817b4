"""The writing half of the data source: executors write files, one worker commits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from deltasql.data.conform import conform
from deltasql.data.layout import layout_of
from deltasql.data.writing.fitting import check_from_arrow
from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.lake import writing
from deltasql.lake.new_table import version_zero
from deltasql.lake.writing import txn_actions
from deltasql.log.conflict import Reads
from deltasql.log.removal import every_row, removes
from deltasql.objectstore import ObjectStore, open_store
from deltasql.spark.native.evolution import as_new
from deltasql.spark.sessions import profiles
from deltasql.spark.sessions.failures import natively
from deltasql.spec.actions import Action, AddFile, Metadata, RemoveFile
from deltasql.spec.schema import parse_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType as SparkStruct

    from deltasql.lake.catalog import Lake
    from deltasql.spark.datasource.source import DeltaSqlSource


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files that one task wrote; a task that failed has no message."""

    adds: tuple[AddFile, ...]


class DeltaSqlWriter(DataSourceArrowWriter):
    """Appends rows, or replaces all existing ones."""

    def __init__(
        self,
        source: DeltaSqlSource,
        schema: SparkStruct,
        *,
        overwrite: bool,
        extra: Sequence[Action] | None = None,
    ) -> None:
        self._source = source
        self._overwrite = overwrite
        self._extra = _txn(source.options) if extra is None else extra
        self._first: list[Action] = []
        with source.open() as lake:
            lake.commits.rights.check()
            record = lake.store.table(source.table_name)
            if record is None:
                incoming = as_new(parse_schema(schema.json(), source="the rows' schema"))
                self._first = version_zero(incoming, (), None)
                self._location = lake.place(source.table_name)
                self._version = -1
                self._metadata = next(a for a in self._first if isinstance(a, Metadata))
            else:
                snapshot = lake.table(source.table_name).base()
                self._location = record.location
                self._version = snapshot.version
                self._metadata = snapshot.metadata
        self._check(schema)

    def _check(self, schema: SparkStruct) -> None:
        """Check, before any task starts, that the table can be written and the rows' types fit."""
        from pyspark.sql.pandas.types import to_arrow_schema

        try:
            check_from_arrow(self._metadata)
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(
                f'format("deltasql") can\'t write {self._source.table_name}: {error.problem}',
                cause=error.cause,
                remedy=natively("write"),
            ) from None
        layout = layout_of(self._metadata)
        rows = to_arrow_schema(schema, timezone="UTC").empty_table()
        conform(rows, layout.schema, arrow_schema=layout.logical)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task as files, on an executor."""
        first = next(iterator, None)
        if first is None:
            return WrittenFiles(())

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from iterator

        rows = pa.RecordBatchReader.from_batches(first.schema, batches())
        return WrittenFiles(tuple(writing.write_rows(self._objects(), self._metadata, rows)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks, once."""
        files = _files(messages)
        with self._source.open() as lake:
            if self._first:
                self._create(lake, files)
                return
            table = lake.table(self._source.table_name)
            removed: list[RemoveFile] = []
            if self._overwrite:
                stamp = writing.now_ms()
                replaced = table.base(version=self._version).adds()
                removed = removes(every_row(replaced), deletion_timestamp=stamp)
            write = writing.Write(
                actions=[*removed, *files],
                operation="WRITE",
                operation_params={
                    "mode": "Overwrite" if self._overwrite else "Append",
                    "partitionBy": list(self._metadata.partition_columns),
                },
                reads=Reads.all() if self._overwrite else Reads.nothing(),
                read_version=self._version,
                files=files,
            )
            table.commit_write(write, self._extra)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what finished tasks wrote, if nothing was committed.

        Spark aborts if a task failed; its message is then missing. It also aborts after `commit`
        has failed, which had all messages and has decided about the files itself; its answer may be
        lost. The files of unfinished tasks are left to vacuum.
        """
        if not any(item is None for item in messages):
            return
        with self._source.open() as lake:
            record = lake.store.table(self._source.table_name)
            lake.discarder.discard(
                self._location,
                [add.path for add in _files(messages)],
                after=self._version,
                table_id=None if record is None else record.table_id,
            )

    def _create(self, lake: Lake, files: Sequence[AddFile]) -> None:
        created = lake.create_with(
            self._source.table_name,
            self._location,
            [*self._first, *files, *self._extra],
            operation="CREATE TABLE AS SELECT",
            operation_params={"partitionBy": []},
            files=files,
        )
        if created is None:
            raise ValidationError(
                f"somebody else has just created {self._source.table_name}",
                remedy="run the write again",
            )

    def _objects(self) -> ObjectStore:
        storage = profiles.storage_options(self._source.profile, self._source.kept)
        return open_store(self._location, storage)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[AddFile]:
    return [add for item in messages if isinstance(item, WrittenFiles) for add in item.adds]


def _txn(options: Any) -> list[Action]:
    app_id, version = options.get("txnAppId"), options.get("txnVersion")
    if version is not None and not str(version).isdecimal():
        raise ValidationError(f"txnVersion is {version!r:.40}", remedy="give a number")
    return txn_actions(app_id, None if version is None else int(version))
