"""A lake as PySpark sees it: `db.read`, `db.write`, views and snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from deltasql.errors import TableExistsError
from deltasql.lake.adoption import Progress, Unmirrored, adopt, chosen
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.feed.rows import feed_range
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.lake.writing import txn_actions
from deltasql.log.timestamps import Timestamp
from deltasql.mirror.checkpoints.now import checkpoint_now
from deltasql.mirror.validation.validate import ValidationReport, validate
from deltasql.spark.catalog.attaching import detach_catalog
from deltasql.spark.cut import Cut
from deltasql.spark.dml.operation import DmlContext
from deltasql.spark.dml.tables import DmlTable, SparkTable
from deltasql.spark.huge_logs import SparkAdds, SparkSummer, spark_check
from deltasql.spark.native import changes, creation
from deltasql.spark.native.gateway import Gateway
from deltasql.spark.native.modes import Writer
from deltasql.spark.native.options import WriteOptions, write_options
from deltasql.spark.native.reading import Reader
from deltasql.spark.running import Running
from deltasql.spark.sessions import credentials
from deltasql.spark.streams.sink import Batch, Function, Shape, sink
from deltasql.spark.transactions import SparkTransaction
from deltasql.spark.views import view_names
from deltasql.spec.actions import Action
from deltasql.spec.protocol import check_writable
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from deltasql.lake.catalog import Lake


class Database:
    """The tables of a lake in a Spark session, through Delta's own reader and writer."""

    def __init__(self, spark: SparkSession, lake: Lake, profile: str | None = None) -> None:
        self.spark = spark
        self.lake = lake
        self.profile = profile
        self.gateway = Gateway(spark)
        self.reader = Reader(spark, self.gateway)
        self.writer = Writer(self.gateway, self.reader, lake.discarder)
        self._cut = Cut(lake)
        lake.presence.watch(Running(spark, lake.store).reads)
        # The name of the lake in Spark SQL, if it was attached with one.
        self.catalog: str | None = None

    def __repr__(self) -> str:
        return f"<Database {self.lake.url}>"

    # --- reading ------------------------------------------------------------------------

    def read(
        self,
        name: str,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        where: str | None = None,
    ) -> DataFrame:
        """The rows of a table as it is, at a version, or as it was at a point in time.

        Files that can't contain rows matching `where`, a condition in Spark SQL, are skipped in the
        database, by partition and by stats, before Spark plans.
        """
        table = self.lake.table(name)
        snapshot = self.open(table, version=version, timestamp=timestamp)
        self.set_credentials(table.location)
        return self.reader.frame(table.location, snapshot, where)

    def open(
        self, table: Table, *, version: int | None = None, timestamp: Timestamp | None = None
    ) -> Snapshot:
        """The snapshot that a read sees: pinned inside `with db.snapshot():`."""
        if version is None and timestamp is None:
            version = self._cut.version_of(table)
            if version is not None:
                pinned = table.snapshot(version=version)
                table.must_be_current(pinned.state)
                return pinned
        return table.snapshot(version=version, timestamp=timestamp)

    def changes(
        self,
        name: str,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
    ) -> DataFrame:
        """The change data feed of a table, including both versions, by default all of them.

        It has the table's columns, `_change_type` (insert, delete, update_preimage,
        update_postimage), `_commit_version` and `_commit_timestamp`.
        """
        table = self.lake.table(name)
        self.set_credentials(table.location)
        ends = feed_range(table, from_version, to_version, from_timestamp, to_timestamp)
        return changes.feed(self.reader, table, *ends)

    @contextmanager
    def snapshot(self) -> Iterator[Mapping[int, int]]:
        """One consistent cut: all reads in the block see the tables as they are now."""
        with self._cut.taken() as versions:
            yield versions

    def register_views(self, namespace: str | None = None) -> list[str]:
        """Create a temporary view of each table of a namespace, all of one cut.

        The view of `sales.orders` in the namespace `sales` is `orders`. It stays at its version:
        register again to see newer ones.
        """
        with self.snapshot():
            names = view_names([table.name for table in self.lake.tables()], namespace)
            for table, view in names.items():
                self.read(table).createOrReplaceTempView(f"`{view}`")
        return list(names.values())

    # --- writing ------------------------------------------------------------------------

    def write(
        self,
        df: DataFrame,
        name: str,
        mode: str = "append",
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        **options: Any,
    ) -> WriteResult:
        """Write rows to a table, creating it if necessary; returns the version, with metrics.

        `mode` is append, overwrite, error or ignore. Options: `partition_by`, `replace_where`
        (replace the rows of a condition), `partition_overwrite="dynamic"` (replace the partitions
        that the rows lie in), `merge_schema`, `overwrite_schema`, `target_file_size` in bytes,
        `commit_metadata`, and `properties` and `description` of a new table; the names of the
        Python API, `where` and `schema_mode="merge"` or `"overwrite"`, work as well. With `app_id`
        and `app_version`, the write happens once, however often it is called.
        """
        wanted = write_options(mode, options)
        extra = txn_actions(app_id, app_version)
        with tracing.span("write", table=name), self.lake.presence.writing():
            return self._write(df, name, mode, wanted, extra)

    def _write(
        self, df: DataFrame, name: str, mode: str, wanted: WriteOptions, extra: Sequence[Action]
    ) -> WriteResult:
        record = self.lake.store.table(name)
        if record is None:
            created = self._create_from(df, name, wanted, extra)
            if created is not None:
                return created
        elif mode in ("error", "errorifexists"):
            raise TableExistsError(
                f"there is already a table {name}",
                cause=f"the mode is {mode!r}",
                remedy='choose another name, or mode="append" or "overwrite"',
            )
        table = self.lake.table(name) if record is None else Table(self.lake, record)
        if mode == "ignore":
            return WriteResult(table.version)
        self.set_credentials(table.location)
        snapshot = table.base()
        abandon = table.abandon(snapshot.version)
        write = self.writer.prepare(table.location, snapshot, df, wanted, abandon=abandon)
        return table.commit_write(write, extra, wanted.commit_metadata)

    def create_table(
        self,
        name: str,
        schema: StructType | str,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        *,
        exists_ok: bool = False,
    ) -> Table:
        """Create an empty table from a Spark schema, or from columns as in CREATE TABLE.

        Such a text may contain NOT NULL, DEFAULT, GENERATED ALWAYS AS (…) and AS IDENTITY.
        """
        return self.lake.create_table(
            name,
            creation.schema_from(self.gateway, schema),
            partition_by=tuple(partition_by),
            properties=properties,
            exists_ok=exists_ok,
        )

    # --- changing rows ------------------------------------------------------------------

    def table(self, name: str) -> SparkTable:
        """A table with delta-spark's methods, and everything else that `lake.table(name)` has."""
        return SparkTable(self, self.lake.table(name))

    def transaction(
        self,
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> SparkTransaction:
        """Several tables, all or nothing: `with db.transaction() as tx: …`

        With `app_id` and `app_version`, it happens once, however often it is run. `commit_metadata`
        goes into the commit of each table.
        """
        return SparkTransaction(
            self, app_id=app_id, app_version=app_version, commit_metadata=commit_metadata
        )

    # --- huge logs ----------------------------------------------------------------------

    def adopt(
        self,
        location: str | os.PathLike[str],
        name: str,
        *,
        fence: bool = True,
        validate: bool = True,
        unmirrored: Unmirrored = "refuse",
        allow: Sequence[str] = (),
        progress: Callable[[Progress], None] | None = None,
    ) -> SparkTable:
        """Take in the Delta table at a location as `lake.adopt` does, with the same result.

        Executors read the checkpoint that the log begins with, and make its rows; the driver writes
        them. It pays for millions of files. The executors need deltasql, no database driver.
        """
        lake = self.lake
        place, how = chosen(
            lake, location, name, fence=fence, validate=validate, unmirrored=unmirrored, allow=allow
        )
        self.set_credentials(place)
        adopted = adopt(
            lake,
            place,
            name,
            how,
            progress,
            load_adds=SparkAdds(self.spark, lake, how.allowed),
            cross_check=partial(spark_check, self.spark, lake),
        )
        return SparkTable(self, adopted)

    def validate(self, name: str, version: int | None = None) -> ValidationReport:
        """Compare a table's mirror with SQL; the same report as `table.mirror.validate`.

        Executors read the checkpoint and hash the rows. Files are compared one by one, by the
        driver, only if that finds a difference.
        """
        lake, table = self.lake, self.lake.table(name)
        return validate(
            lake.store,
            table.objects,
            table.target,
            version=version,
            options=lake.reader_options,
            summer=SparkSummer(self.spark, lake),
        )

    def checkpoint(self, name: str) -> int:
        """Write the checkpoint of a table's newest mirrored version; returns that version.

        The same file as `table.mirror.checkpoint` writes. Executors hash the rows, to prove that
        they are those of the commits; the driver writes the file.
        """
        lake, table = self.lake, self.lake.table(name)
        sums = SparkSummer(self.spark, lake).live_sums
        return checkpoint_now(
            lake.engine, lake.store, table.objects, table.target, sums=sums
        ).version

    # --- streams ------------------------------------------------------------------------

    def sink(
        self,
        target: str | Mapping[str, Shape] | Function,
        *,
        app_id: str | None = None,
        **options: Any,
    ) -> Batch:
        """The function for `df.writeStream.foreachBatch(…)`: each batch counts exactly once.

        `target` is a table, or several, each with a function that derives its rows from the batch
        (`{"a": f, "b": g}`; None for the batch itself), or a function of a transaction, the batch
        and its number, for merges. Several tables get a batch in one transaction. Options are those
        of `write`. The stream's own id is the application id; over Spark Connect, `app_id` must
        name the stream.
        """
        return sink(self, target, app_id, options)

    def stream(
        self,
        name: str,
        *,
        starting_version: int | str | None = None,
        starting_timestamp: str | None = None,
        max_files_per_trigger: int | None = None,
        ignore_deletes: bool = False,
        skip_change_commits: bool = False,
        change_feed: bool = False,
    ) -> DataFrame:
        """The rows that are added to a table, as a stream; see docs/spark-dml.md.

        It begins with the existing rows, unless `starting_version` ("latest" for new rows only) or
        `starting_timestamp` says otherwise. `change_feed` streams the table's changes instead of
        its rows.
        """
        given = {
            "startingVersion": starting_version,
            "startingTimestamp": starting_timestamp,
            "maxFilesPerTrigger": max_files_per_trigger,
            "ignoreDeletes": ignore_deletes or None,
            "skipChangeCommits": skip_change_commits or None,
            "readChangeFeed": change_feed or None,
        }
        options = {key: str(value) for key, value in given.items() if value is not None}
        if self.profile is not None:
            options["lake"] = self.profile
        return self.spark.readStream.format("deltasql").options(**options).load(name)

    def context(self, table: DmlTable) -> DmlContext:
        """A table for one operation on its rows."""
        self.set_credentials(table.location)
        snapshot = table.base()
        check_writable(snapshot.protocol)
        return DmlContext(
            location=table.location,
            objects=table.objects,
            snapshot=snapshot,
            gateway=self.gateway,
            reader=self.reader,
            writer=self.writer,
            abandon=table.abandon(snapshot.version),
        )

    def _create_from(
        self, df: DataFrame, name: str, options: WriteOptions, extra: Sequence[Action]
    ) -> WriteResult | None:
        """Create a table with its rows in version 0; None if somebody else was faster."""
        self.lake.commits.rights.check()
        location = self.lake.place(name)
        self.set_credentials(location)
        return creation.create_from(self.lake, self.writer, df, name, location, options, extra)

    def detach(self) -> None:
        """Remove the lake's catalog from the session; what was read before stays readable."""
        if self.catalog is not None:
            detach_catalog(self.spark, self.catalog, self.lake)
            self.catalog = None

    def set_credentials(self, location: str) -> None:
        """Let Spark read and write where the lake may."""
        credentials.set_credentials(self.spark, location, self.lake.storage)
