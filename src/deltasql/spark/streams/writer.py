"""`writeStream.format("deltasql")`: the data source route's sink, each batch exactly once.

Spark does not tell such a sink the id of its query. It is in the checkpoint, where a restarted
query finds its own; without a checkpoint, the option `txnAppId` must name the stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from deltasql.errors import DeltaSqlError, ValidationError
from deltasql.lake.writing import txn_actions
from deltasql.objectstore import open_store
from deltasql.spark.datasource.writer import DeltaSqlWriter
from deltasql.spark.sessions import profiles

if TYPE_CHECKING:
    from pyspark.sql.types import StructType as SparkStruct

    from deltasql.spark.datasource.source import DeltaSqlSource


class DeltaSqlStreamWriter(DataSourceStreamArrowWriter):
    """Appends each batch of a stream once."""

    def __init__(self, source: DeltaSqlSource, schema: SparkStruct) -> None:
        self._source = source
        self._schema = schema
        with source.open() as lake:
            if lake.store.table(source.table_name) is None:
                DeltaSqlWriter(source, schema, overwrite=False, extra=()).commit([])
        self._writer = DeltaSqlWriter(source, schema, overwrite=False, extra=())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task as files, on an executor."""
        return self._writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit a batch with its number, unless the table already has it."""
        # Read again: the table may have changed since the stream began.
        txn = txn_actions(self._app_id(), batchId)
        DeltaSqlWriter(self._source, self._schema, overwrite=False, extra=txn).commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Delete what finished tasks wrote, if nothing was committed."""
        self._writer.abort(messages)

    def _app_id(self) -> str:
        given = self._source.options.get("txnAppId")
        if given:
            return str(given)
        place = self._source.options.get("checkpointLocation")
        if not place:
            raise ValidationError(
                "the sink does not know which stream it belongs to",
                cause="neither a checkpointLocation nor a txnAppId was given as an option",
                remedy='add option("checkpointLocation", …), or option("txnAppId", …)',
            )
        storage = profiles.storage_options(self._source.profile, self._source.kept)
        location = place if "://" in place else f"file://{place.removeprefix('file:')}"
        try:
            found = json.loads(open_store(location, storage).read("metadata"))
            return str(found["id"])
        except (DeltaSqlError, ValueError, KeyError) as error:
            raise ValidationError(
                f"the checkpoint at {place} does not contain the stream's id",
                cause=str(error).splitlines()[0],
                remedy='name the stream: option("txnAppId", …)',
            ) from error
