"""`format("deltasql")`: a Python data source, which needs no jar and works over Spark Connect.

Planning and committing happen in workers beside the driver, reading and writing of files on
executors; only the former open the database. This route refuses what it can't do, and points to the
native one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from deltasql.data.reading.reader import read_files
from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.state import TableState
from deltasql.objectstore import open_store
from deltasql.objectstore.sources import Sources
from deltasql.spark.datasource.filters import understood
from deltasql.spark.sessions import profiles
from deltasql.spark.sessions.failures import natively
from deltasql.spec.features import type_names
from deltasql.spec.properties import DELTA_PREFIX
from deltasql.spec.protocol import check_readable
from deltasql.store.file_rows import from_batch

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        Filter,
    )
    from pyspark.sql.types import StructType as SparkStruct

    from deltasql.lake.catalog import Lake
    from deltasql.lake.snapshot import Snapshot
    from deltasql.spec.actions import AddFile

READ_OPTIONS = frozenset({"path", "table", "lake", "versionasof", "timestampasof"})
WRITE_OPTIONS = frozenset({"path", "table", "lake", "txnappid", "txnversion"})
STREAM_WRITE_OPTIONS = frozenset({"path", "table", "lake", "txnappid", "checkpointlocation"})
BUILTIN_CATALOG = "builtin"
_KEPT = "deltasql.source"
_SECRETIVE = frozenset({"url", "dsn", "password", "user"})
# Roughly what one task reads: a few large files, or many small ones.
TASK_BYTES = 64 << 20


class DeltaSqlSource(DataSource):
    """The tables of a lake: `load("sales.orders")`."""

    # The file with the lakes that a program has attached; see `profiles`.
    kept: str | None = None
    # The session's catalog: Spark's own, or a class from somebody else.
    catalog: str = BUILTIN_CATALOG

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "deltasql"

    def schema(self) -> SparkStruct:
        """The schema of the version that will be read, which this pins."""
        from pyspark.sql.types import StructType

        self._check_catalog()
        with self.open() as lake:
            snapshot = self._snapshot(lake)
            self._version = snapshot.version
            shown = snapshot.state
            if str(self.options.get("readChangeFeed", "")).lower() == "true":
                from deltasql.spark.streams.files import state_of

                shown = state_of("beside", shown)
            found = StructType.fromJson(_plain_schema(shown))
        if "table" in self.options and found.fields:
            # Spark keeps the columns of a CREATE TABLE, but forgets its options.
            found.fields[0].metadata[_KEPT] = {"table": self.table_name, "lake": self.profile or ""}
        return found

    def reader(self, schema: SparkStruct) -> DataSourceReader:
        """A reader of the pinned version."""
        self._check_options(READ_OPTIONS, "read")
        self._remember(schema)
        return DeltaSqlReader(self, schema)

    def writer(self, schema: SparkStruct, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """A writer that appends, or replaces all rows."""
        from deltasql.spark.datasource.writer import DeltaSqlWriter

        self._check_options(WRITE_OPTIONS, "write")
        self._remember(schema)
        return DeltaSqlWriter(self, schema, overwrite=overwrite)

    def streamReader(self, schema: SparkStruct) -> DataSourceStreamReader:  # noqa: N802
        """A reader of what is added to the table."""
        from deltasql.spark.streams.files import OPTIONS
        from deltasql.spark.streams.source import DeltaSqlStreamReader

        self._check_options(OPTIONS | {"path", "table", "lake"}, "stream")
        return DeltaSqlStreamReader(self, schema)

    def streamWriter(  # noqa: N802
        self,
        schema: SparkStruct,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        """A writer that appends each batch once."""
        from deltasql.spark.streams.writer import DeltaSqlStreamWriter

        self._check_options(STREAM_WRITE_OPTIONS, "sink")
        if overwrite:
            raise UnsupportedFeatureError(
                "a stream can't replace the table with each batch",
                cause='outputMode("complete") was asked for',
                remedy='use db.sink(…, mode="overwrite") in foreachBatch',
            )
        return DeltaSqlStreamWriter(self, schema)

    # --- the lake -----------------------------------------------------------------------

    @property
    def table_name(self) -> str:
        """The table's name in the lake."""
        # Spark takes the path of a CREATE TABLE for a folder, and does not pass it on.
        name = self.options.get("table") or self.options.get("path")
        if not name:
            raise ValidationError(
                'format("deltasql") was given no table',
                remedy="name it: load('sales.orders'), or OPTIONS (table 'sales.orders')",
            )
        return str(name)

    @property
    def profile(self) -> str | None:
        """The profile of the lake, if one was named."""
        found = self.options.get("lake")
        return None if found is None else str(found)

    def open(self) -> Lake:
        """The lake, in this process."""
        return profiles.open_lake(self.profile, self.kept)

    def snapshot_in(self, lake: Lake) -> Snapshot:
        """The snapshot that was pinned, or that the options ask for."""
        return self._snapshot(lake)

    def _snapshot(self, lake: Lake) -> Snapshot:
        version, timestamp = self.options.get("versionAsOf"), self.options.get("timestampAsOf")
        if self._version is not None:
            version, timestamp = str(self._version), None
        if version is not None and not str(version).isdecimal():
            raise ValidationError(f"versionAsOf is {version!r:.40}", remedy="give a number")
        table = lake.table(self.table_name)
        return table.snapshot(
            version=None if version is None else int(version), timestamp=timestamp
        )

    def _remember(self, schema: SparkStruct) -> None:
        """Take the table's name from its columns, if the options are gone."""
        for item in schema.fields:
            kept = item.metadata.pop(_KEPT, None)
            if kept is not None and "path" not in self.options:
                self.options["table"] = kept["table"]
                if kept["lake"]:
                    self.options["lake"] = kept["lake"]

    def _check_catalog(self) -> None:
        """Refuse a CREATE TABLE whose table Spark could not load again."""
        # Only CREATE TABLE also passes the options as properties.
        if "option.table" in self.options and self.catalog != BUILTIN_CATALOG:
            raise UnsupportedFeatureError(
                "the table could be created with USING deltasql, but not loaded",
                cause=f"spark.sql.catalog.spark_catalog is {self.catalog}, and under a catalog "
                "other than its own Spark loads no table of a Python data source",
                remedy="use CREATE TEMPORARY VIEW … USING deltasql, or db.register_views(…)",
            )

    def _check_options(self, known: frozenset[str], verb: str) -> None:
        for key in self.options:
            if key.lower() in _SECRETIVE:
                raise ValidationError(
                    f"the option {key!r} would show in plans and logs",
                    remedy='name a profile of deltasql.toml instead: option("lake", …)',
                )
            if key.lower() not in known:
                raise UnsupportedFeatureError(
                    f'format("deltasql") can\'t {verb} with the option {key!r}',
                    cause="the data source route reads whole tables, appends and overwrites",
                    remedy=natively(verb),
                )


@dataclass
class Files(InputPartition):
    """The files that one task reads."""

    adds: tuple[AddFile, ...]
    sources: tuple[str, ...] = ()


class DeltaSqlReader(DataSourceReader):
    """Reads the files of one version, skipped in SQL by the filters that Spark pushes."""

    def __init__(self, source: DeltaSqlSource, schema: SparkStruct) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._source = source
        self._columns = schema.names
        self._output = to_arrow_schema(schema, timezone="UTC")
        with source.open() as lake:
            snapshot = source.snapshot_in(lake)
            self._state: TableState = snapshot.state
            self._location = lake.table(source.table_name).location
        check_readable(self._state.protocol)
        if "variant" in type_names(self._state.schema):
            raise UnsupportedFeatureError(
                "the table has a column of type variant",
                cause="Arrow has no such type",
                remedy=natively("read"),
            )
        self._predicate: Predicate | None = None

    def pushFilters(self, filters: Sequence[Filter]) -> Iterator[Filter]:  # noqa: N802
        """Take those that skip files; Spark still applies every filter."""
        self._predicate = understood(filters, self._state.schema)
        yield from filters

    def partitions(self) -> list[InputPartition]:
        """The files, in bins of about the same size."""
        with self._source.open() as lake:
            table = lake.table(self._source.table_name)
            snapshot = table.snapshot(version=self._state.version)
            adds = [add for batch in snapshot.batches(self._predicate) for add in from_batch(batch)]
            return list(_bins(adds, table.sources))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files, on an executor."""
        if not isinstance(partition, Files):
            return
        storage = profiles.storage_options(self._source.profile, self._source.kept)
        batches = read_files(
            open_store(self._location, storage, Sources(lambda: partition.sources)),
            partition.adds,
            schema=self._state.schema,
            partition_columns=self._state.partition_columns,
            column_mapping=self._state.column_mapping,
            columns=self._columns,
        )
        for batch in batches:
            if batch.num_rows:
                yield as_spark_wants(batch, self._output)


def _bins(adds: Sequence[AddFile], sources: tuple[str, ...]) -> Iterator[Files]:
    waiting: list[AddFile] = []
    size = 0
    for add in adds:
        waiting.append(add)
        size += add.size
        if size >= TASK_BYTES:
            yield Files(tuple(waiting), sources)
            waiting, size = [], 0
    if waiting:
        yield Files(tuple(waiting), sources)


def as_spark_wants(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with Spark's own types: the same values, but other names of inner fields."""
    columns = [
        column if column.type == item.type else column.cast(item.type)
        for column, item in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_schema(state: TableState) -> dict[str, Any]:
    """The table's schema as readers see it, without Delta's internals."""
    from deltasql.spec import codec
    from deltasql.spec.schema import render_schema

    found: dict[str, Any] = codec.loads(render_schema(state.schema))
    _strip(found)
    return found


def _strip(kind: Any) -> None:
    if not isinstance(kind, dict):
        return
    for item in kind.get("fields", ()):
        item["metadata"] = {
            key: value
            for key, value in item["metadata"].items()
            if not key.startswith(DELTA_PREFIX)
        }
        _strip(item["type"])
    for key in ("elementType", "keyType", "valueType"):
        _strip(kind.get(key))


def registered(kept: str | None, catalog: str = BUILTIN_CATALOG) -> type[DeltaSqlSource]:
    """The data source of a session, which knows the file with the program's lakes."""

    class Attached(DeltaSqlSource):
        pass

    Attached.kept = kept
    Attached.catalog = catalog
    return Attached
