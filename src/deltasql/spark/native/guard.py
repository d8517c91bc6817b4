"""Frames that can be read but not written to.

Spark accepts a frame that is a bare scan of files as a target for writes: an INSERT into a view of
it writes into the folder, and empties it first if it overwrites. Delta resolves DELETE and UPDATE,
and loops for ever on a scan without a log to commit to, such as ours.

So no frame of ours is a bare scan. It is the query of a WITH whose single definition is never
referenced. Spark inserts only into scans; Delta checks the definitions before the query, and
refuses ours, an empty table as of an invalid time. Its message shows the given time, which says
what to do instead. The optimizer first drops unreferenced definitions: then the scan is what it
was, with its filters, its columns and its `_metadata`.

The assumptions about Spark and Delta are tested in `tests/spark/test_gateway.py`.
"""

from __future__ import annotations

import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from deltasql.spark.native.gateway import Gateway, hadoop_location
from deltasql.spec import codec
from deltasql.spec.actions import Metadata, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Inside an SQL literal, so without quotes.
WAY_OUT = (
    "frames and views of deltasql are read-only, "
    "write with db.write(df, name), db.table(name).delete(), .update() or .merge()"
)
_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
_METADATA = Metadata(id="deltasql", schema_string='{"type":"struct","fields":[]}')
_COUNTS = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}


class Guard:
    """What is put before the scans of one session."""

    def __init__(self, spark: SparkSession, gateway: Gateway) -> None:
        self._spark = spark
        self._session = cast("Any", spark._jsparkSession)
        self._gateway = gateway
        jvm = cast("Any", spark._jvm)
        self._jvm = jvm
        self._none = jvm.scala.Option.empty()
        # Kept: each part of a name costs a call to the JVM.
        logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._filter = logical.Filter
        self._with = logical.WithCTE
        self._definition = logical.CTERelationDef
        self._definitions = _object(logical, "CTERelationDef")
        self._frames = _object(jvm.org.apache.spark.sql.classic, "Dataset")
        self._nothing = _object(jvm.scala.collection.immutable, "Nil")

    def read_only(self, frame: DataFrame) -> DataFrame:
        """The same rows, from a plan that nothing can be written to."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

        self._gateway.activate()
        # With its own number: Spark takes definitions with the same number for copies.
        number = self._definitions.newId()
        first = self._definition(self._refusal, number, self._none, False, self._none)  # noqa: FBT003
        definitions = self._nothing.prepended(first)
        plan = frame._jdf.queryExecution().analyzed()
        guarded = self._with(plan, definitions)
        shown = self._filter(self._always, guarded)
        return ClassicFrame(self._frames.ofRows(self._session, shown), self._spark)

    @cached_property
    def _always(self) -> Any:
        """A condition that is optimized away; an INSERT that is refused shows it."""
        parser = self._session.sessionState().sqlParser()
        return parser.parseExpression(f"'{WAY_OUT}' IS NOT NULL")

    @cached_property
    def _refusal(self) -> Any:
        """A table that exists, as of `WAY_OUT`."""
        # Kept as long as the session: Delta reads its log when it refuses a statement.
        self._folder = tempfile.TemporaryDirectory(prefix="deltasql-")
        root = Path(self._folder.name)
        _write_log(root / "_delta_log")
        maps = self._jvm.java.util.HashMap
        place, time = maps(), maps()
        place.put("path", hadoop_location(root.as_uri()))
        time.put("timestampAsOf", WAY_OUT)
        options = self._jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(time)
        delta = self._jvm.org.apache.spark.sql.delta
        table = delta.sources.DeltaDataSource().getTable(None, None, place)
        relations = _object(
            self._jvm.org.apache.spark.sql.execution.datasources.v2, "DataSourceV2Relation"
        )
        made = relations.create(table, self._none, self._none, options, self._none)
        # Otherwise Delta turns it into a scan at once, beside ours.
        made.setTagValue(_object(delta, "DeltaRelation").KEEP_AS_V2_RELATION_TAG(), True)  # noqa: FBT003
        return made


def _write_log(log: Path) -> None:
    """Write the log of an empty table, with a checksum that spares Delta a job to replay it."""
    log.mkdir(parents=True)
    actions = (_PROTOCOL, _METADATA)
    (log / f"{0:020}.json").write_bytes(codec.encode_commit(actions))
    protocol, metadata = map(codec.wire_fields, actions)
    checksum = {**_COUNTS, "protocol": protocol, "metadata": metadata}
    (log / f"{0:020}.crc").write_bytes(codec.dumps(checksum))


def _object(package: Any, name: str) -> Any:
    """A Scala singleton object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
