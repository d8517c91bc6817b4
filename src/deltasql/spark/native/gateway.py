"""All calls into Delta's own classes, through Py4J, except for those in `guard`.

Here a snapshot from SQL becomes a Delta object, which Delta's reader and writer take for one that
was read from `_delta_log`. The assumptions about those classes are stated in
`tests/spark/test_gateway.py`, one test each.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from deltasql.spark.sessions.failures import explained
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    DeletionVector,
    Metadata,
    Protocol,
)
from deltasql.spec.features import FENCE
from deltasql.spec.properties import (
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOWS_EXPLICIT,
    IDENTITY_START,
    IDENTITY_STEP,
)
from deltasql.spec.protocol import implied_features

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

_SPARK = "org.apache.spark.sql"
_DELTA = f"{_SPARK}.delta"
# A folder that does not exist: Delta makes a log object of it without listing anything.
_NOWHERE = Path(tempfile.gettempdir()) / f"deltasql-no-log-{uuid.uuid4().hex}"
# Only scans of tables whose protocol lists this have row positions.
_TO_READ = frozenset({"deletionVectors"})
_SNAPSHOT_WITH_DOMAINS = 5
# File, its old deletion vector (see `vector_text`), and the position of a deleted row.
VECTOR_COLUMNS = ("filePath", "deletionVectorId", "rowIndexCol")
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True, slots=True)
class JvmTable:
    """A table on the JVM: Delta's log object and a snapshot that came from SQL."""

    log: Any
    snapshot: Any


@dataclass(frozen=True, slots=True)
class Written:
    """What Delta's writer wrote: file actions, and the new high-water marks of identity columns."""

    actions: Sequence[AddFile | CdcFile]
    identity: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewVector:
    """The deletion vector that a file will have; the file as Spark names it."""

    file_path: str
    vector: DeletionVector


class Gateway:
    """Delta's classes on the JVM of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm = cast("Any", spark._jvm)
        # By name: each part of a name costs a call to the JVM, as does each static member.
        self._known: dict[str, Any] = {}
        self._none = self._jvm.scala.Option.empty()
        self._some = self._jvm.scala.Option.apply
        self._empty_map = self._object("scala.collection.immutable.Map").empty()
        self._set_active = self._class(f"{_SPARK}.classic.SparkSession").setActiveSession

    @property
    def delta_version(self) -> str:
        """The version of the Delta jar on the class path; empty if there is none."""
        try:
            return str(self._jvm.io.delta.package.VERSION())
        except TypeError:  # Py4J's answer for a class that does not exist
            return ""

    def activate(self) -> None:
        """Make our session the active one: Delta asks the thread for it at every step."""
        self._set_active(self._spark._jsparkSession)

    # --- tables -------------------------------------------------------------------------

    def table(
        self, location: str, metadata: Metadata, protocol: Protocol, read_version: int | None = None
    ) -> JvmTable:
        """A table as Delta's reader and writer want it, without reading its log.

        With `read_version` the scan provides row positions, which deletes and merges need, and
        `spark/running.py` sees which version is read.
        """
        self.activate()
        no_log = self._path((_NOWHERE / str(read_version) / "_delta_log").as_uri())
        log = self._class(f"{_DELTA}.DeltaLog")(
            no_log,
            self._path(hadoop_location(location)),
            self._empty_map,
            self._empty_map,
            self._clock,
            self._none,
        )
        arguments = [no_log, log, self._action(metadata)]
        if self._snapshot_arity == _SNAPSHOT_WITH_DOMAINS:
            arguments.append(self._none)
        more = frozenset() if read_version is None else _TO_READ
        known = self._some(self._action(_known(protocol, more)))
        return JvmTable(log, self._class(f"{_DELTA}.DummySnapshot")(*arguments, known))

    def _path(self, location: str) -> Any:
        return self._class("org.apache.hadoop.fs.Path")(location)

    @cached_property
    def _clock(self) -> Any:
        return self._jvm.org.apache.spark.util.SystemClock()

    @cached_property
    def _snapshot_arity(self) -> int:
        found = self._class_of(f"{_DELTA}.DummySnapshot").getConstructors()
        return max(int(item.getParameterCount()) for item in found)

    # --- reading ------------------------------------------------------------------------

    def frame(self, table: JvmTable, files: Path) -> DataFrame:
        """The rows of the files that a JSON array of adds names (see `file_transfer`)."""
        self.activate()
        adds = self._adds(files)
        java = table.log.createDataFrame(table.snapshot, adds, False, self._none)  # noqa: FBT003
        from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

        return ClassicFrame(java, self._spark)

    def with_row_ids(self, table: JvmTable, frame: DataFrame) -> DataFrame:
        """The rows of `frame`, of a table that tracks them, with their ids and versions."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

        self.activate()
        tracking = self._class(f"{_DELTA}.RowTracking")
        java = tracking.preserveRowTrackingColumns(frame._jdf, table.snapshot)
        return ClassicFrame(java, self._spark)

    def identity_values(self, field: StructField) -> Column:
        """New values for an identity column, from its high-water mark on."""
        from pyspark.sql.classic.column import Column as ClassicColumn
        from pyspark.sql.types import StructType

        self.activate()
        java = self._jvm.org.apache.spark.sql.types.DataType.fromJson(StructType([field]).json())
        identity = self._class(f"{_DELTA}.IdentityColumn")
        return ClassicColumn(identity.createIdentityColumnGenerationExprAsColumn(java.head()))

    def _adds(self, files: Path) -> Any:
        file = self._class("java.io.File")(str(files))
        found = self._mapper.readValue(file, self._adds_class)
        return self._object("scala.collection.immutable.ArraySeq").unsafeWrapArray(found)

    @cached_property
    def _adds_class(self) -> Any:
        return self._class_of(f"[L{_DELTA}.actions.AddFile;")

    # --- writing ------------------------------------------------------------------------

    def write(
        self,
        table: JvmTable,
        frame: DataFrame,
        *,
        check: str | None = None,
        max_rows: int | None = None,
        identity: Iterable[str] = (),
    ) -> Written:
        """Write rows as files of the table, without committing anything.

        `check` is an additional condition that every row must satisfy; `max_rows` limits the rows
        of one file. `identity` names columns whose new values the rows already have.
        """
        self.activate()
        begin = self._class(f"{_DELTA}.OptimisticTransaction")
        transaction = begin(table.log, self._none, table.snapshot)
        if numbered := set(identity):
            transaction.setTrackHighWaterMarks(self._set(numbered))
        checks = self._checks(check)
        options = {} if max_rows is None else {"maxRecordsPerFile": str(max_rows)}
        with explained():
            written = transaction.writeFiles(frame._jdf, self._options(options), checks)
        marks = transaction.updatedIdentityHighWaterMarks()
        return Written(
            actions=[_parsed(item) for item in self._json_of(written)],
            identity={name: int(value) for name, value in self._json_of(marks)},
        )

    def vector_text(self, vector: DeletionVector) -> str:
        """A deletion vector in the form that `vectors` takes."""
        add = AddFile(path="-", size=0, modification_time=0, deletion_vector=vector)
        return str(self._action(add).deletionVector().serializeToBase64())

    def vectors(self, table: JvmTable, frame: DataFrame) -> list[NewVector]:
        """Write deletion vectors: the frame's columns are `VECTOR_COLUMNS`, one row per deleted
        row.

        The new vector includes the one that the file already has.
        """
        self.activate()
        generator = self._class(f"{_DELTA}.commands.DeletionVectorBitmapGenerator")
        session = self._spark._jsparkSession
        found = self._json_of(generator.buildDeletionVectors(session, frame._jdf, table.log, 0))
        return [
            NewVector(item["filePath"], codec.vector_from_wire(item["deletionVector"]))
            for item in found
        ]

    def _json_of(self, value: Any) -> Any:
        # As one text: the gateway passes a list item by item, 0.1 ms each.
        return codec.loads(self._mapper.writeValueAsString(value))

    def _checks(self, check: str | None) -> Any:
        constraints = self._jvm.java.util.ArrayList()
        if check is not None:
            kind = self._class(f"{_DELTA}.constraints.Constraints$Check")
            constraints.add(kind("replace_where", self._expression(check)))
        converters = self._jvm.scala.jdk.javaapi.CollectionConverters
        return converters.asScala(constraints).toSeq()

    def _options(self, options: Mapping[str, str]) -> Any:
        if not options:
            return self._none
        given = self._empty_map
        for key, value in options.items():
            given = given.updated(key, value)
        conf = self._spark._jsparkSession.sessionState().conf()
        return self._some(self._class(f"{_DELTA}.DeltaOptions")(given, conf))

    # --- Spark's parser -----------------------------------------------------------------

    def conjuncts(self, condition: str) -> list[str]:
        """The parts of a condition that are joined by AND, each as Spark prints it."""
        found: list[str] = []
        waiting = [self._expression(condition)]
        while waiting:
            item = waiting.pop()
            if item.nodeName() == "And":
                waiting += [item.right(), item.left()]
            else:
                found.append(str(item.sql()))
        return found

    def equalities(self, condition: str) -> list[tuple[str, str]]:
        """Both sides of each conjunct that is an equality."""
        return [
            (str(item.left().sql()), str(item.right().sql()))
            for item in map(self._expression, self.conjuncts(condition))
            if item.nodeName() == "EqualTo"
        ]

    def text_of(self, frame: DataFrame, condition: Column) -> str:
        """A condition on a frame, resolved and printed as SQL."""
        return str(self._resolved(frame, condition).sql())

    def is_deterministic(self, frame: DataFrame, condition: Column) -> bool:
        """Whether a condition gives the same result for a row each time it is evaluated."""
        return bool(self._resolved(frame, condition).deterministic())

    def _resolved(self, frame: DataFrame, condition: Column) -> Any:
        self.activate()
        plan = frame.where(condition)._jdf.queryExecution().analyzed()
        # A hidden column such as `_metadata` adds a projection on top that drops it again.
        while plan.nodeName() != "Filter":
            plan = plan.child()
        return plan.condition()

    def is_small(self, frame: DataFrame) -> bool:
        """Whether Spark would broadcast a frame instead of joining by a shuffle."""
        size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        conf = self._spark._jsparkSession.sessionState().conf()
        return size <= int(conf.autoBroadcastJoinThreshold())

    def tasks_of(self, frame: DataFrame) -> int:
        """The number of tasks in which a frame is read."""
        return int(frame._jdf.queryExecution().toRdd().getNumPartitions())

    def alias_of(self, frame: DataFrame) -> str | None:
        """The alias of a frame, or the name of its view."""
        plan = frame._jdf.queryExecution().analyzed()
        return str(plan.alias()) if plan.nodeName() == "SubqueryAlias" else None

    def _expression(self, text: str) -> Any:
        self.activate()
        return self._spark._jsparkSession.sessionState().sqlParser().parseExpression(text)

    def columns_of(self, columns: str) -> str:
        """The columns of a CREATE TABLE, as the JSON of a Delta schema."""
        self.activate()
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        plan = parser.parsePlan(f"CREATE TABLE t ({columns}) USING delta")
        converters = self._jvm.scala.jdk.javaapi.CollectionConverters
        # To Delta, char(n) is a string with its length in the column's metadata.
        texts = self._jvm.org.apache.spark.sql.catalyst.util.CharVarcharUtils
        plain = codec.loads(texts.replaceCharVarcharWithStringInSchema(plan.tableSchema()).json())
        definitions = converters.asJava(plan.columns())
        fields = [_field(*pair) for pair in zip(definitions, plain["fields"], strict=True)]
        return codec.dumps({"type": "struct", "fields": fields}).decode()

    # --- Delta's own forms --------------------------------------------------------------

    def _action(self, action: Action) -> Any:
        return self._object(f"{_DELTA}.actions.Action").fromJson(codec.encode(action).decode())

    @cached_property
    def _mapper(self) -> Any:
        return self._object(f"{_DELTA}.util.JsonUtils").mapper()

    def _set(self, values: Iterable[str]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSet()

    def _class(self, name: str) -> Any:
        """A class by its full name."""
        if name not in self._known:
            self._known[name] = reduce(getattr, name.split("."), self._jvm)
        return self._known[name]

    def _object(self, name: str) -> Any:
        """A Scala singleton object."""
        return self._class(f"{name}$.MODULE$")

    def _class_of(self, name: str) -> Any:
        return self._jvm.org.apache.spark.util.Utils.classForName(name, True, False)  # noqa: FBT003


def hadoop_location(location: str) -> str:
    """A location as Hadoop writes it: its client for S3 is `s3a`, and it decodes no URL."""
    if location.startswith("file:"):
        return unquote(location)
    return f"s3a://{location[5:]}" if location.startswith("s3://") else location


def _known(protocol: Protocol, also: frozenset[str]) -> Protocol:
    """The protocol as Delta may see it: our fence is for foreign writers, and this is ours."""
    reader, writer = implied_features(protocol)
    return Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=tuple(sorted(reader | also)),
        writer_features=tuple(sorted((reader | writer | also) - {FENCE})),
    )


def _parsed(fields: dict[str, Any]) -> AddFile | CdcFile:
    """A file action from its own object; only adds say when their file was modified."""
    action = codec.from_wire({"add" if "modificationTime" in fields else "cdc": fields})
    assert isinstance(action, AddFile | CdcFile)
    return action


def _field(column: Any, plain: dict[str, Any]) -> dict[str, Any]:
    """A field of a Delta schema from a Spark column definition."""
    metadata = {key: text for key, text in plain["metadata"].items() if key == _LENGTH}
    if column.comment().isDefined():
        metadata["comment"] = column.comment().get()
    if column.defaultValue().isDefined():
        text = column.defaultValue().get().originalSQL()
        metadata |= {CURRENT_DEFAULT: text, EXISTS_DEFAULT: text}
    if column.generationExpression().isDefined():
        metadata[GENERATION_EXPRESSION] = column.generationExpression().get()
    if column.identityColumnSpec().isDefined():
        spec = column.identityColumnSpec().get()
        metadata[IDENTITY_START] = spec.getStart()
        metadata[IDENTITY_STEP] = spec.getStep()
        metadata[IDENTITY_ALLOWS_EXPLICIT] = spec.isAllowExplicitInsert()
    return {
        "name": column.name(),
        "type": plain["type"],
        "nullable": column.nullable(),
        "metadata": metadata,
    }
