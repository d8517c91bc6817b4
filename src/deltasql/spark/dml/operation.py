"""A table as one operation on its rows sees it: its snapshot, its files, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltasql.commit.discarding import Abandon
from deltasql.data.writing.writer import NewFile
from deltasql.errors import ValidationError
from deltasql.lake import writing
from deltasql.lake.dml.metrics import FileChanges
from deltasql.lake.snapshot import Snapshot
from deltasql.log.conflict import Reads
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.removal import Removable, Sorted, removes, sort_by_match
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spark.dml.assignments import as_column
from deltasql.spark.dml.row_ids import RowIds
from deltasql.spark.native.evolution import Plan
from deltasql.spark.native.gateway import Gateway, Written
from deltasql.spark.native.modes import Writer
from deltasql.spark.native.paths import place_of
from deltasql.spark.native.reading import Condition, Reader
from deltasql.spec.actions import Action, AddFile, CdcFile
from deltasql.spec.properties import CHANGE_FEED, is_true
from deltasql.store.file_rows import from_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType as SparkStruct

FILE = "__deltasql_file"
ROW = "__deltasql_row"
# What an operation commits, if anything, and what it did.
Outcome = tuple[writing.Write, Mapping[str, int]]


# Not slotted: `cached_property` stores its value in the instance.
@dataclass(frozen=True, kw_only=True)
class DmlContext:
    """One table at one snapshot, for one delete, update or merge."""

    location: str
    objects: ObjectStore
    snapshot: Snapshot
    gateway: Gateway
    reader: Reader
    writer: Writer
    abandon: Abandon

    @property
    def state(self) -> TableState:
        """Metadata and protocol."""
        return self.snapshot.state

    @cached_property
    def has_feed(self) -> bool:
        """Whether changes are recorded row by row."""
        return is_true(self.state.properties, CHANGE_FEED)

    @property
    def marks_rows(self) -> bool:
        """Whether rows are deleted by deletion vectors instead of by rewriting the rest."""
        return self.state.writes_deletion_vectors

    # --- reading ------------------------------------------------------------------------

    def condition(self, given: str | Column) -> Condition:
        """A condition on the rows, and what the database understands of it."""
        self.must_be_deterministic(self.rows([]), as_column(given))
        text = given if isinstance(given, str) else self.gateway.text_of(self.rows([]), given)
        return self.reader.condition(text, self.state)

    def must_be_deterministic(self, frame: DataFrame, condition: Column) -> None:
        """Refuse a condition that could match other rows when it is evaluated again."""
        if not self.gateway.is_deterministic(frame, condition):
            raise ValidationError(
                "the condition may match other rows each time",
                cause="it is random, or depends on when and where it is evaluated",
                remedy="write its result to a column first",
            )

    def files(self, predicate: Predicate | None) -> list[AddFile]:
        """The files that may contain rows of the predicate: skipped in SQL."""
        return [add for batch in self.snapshot.batches(predicate) for add in from_batch(batch)]

    def sorted_files(self, condition: Condition) -> Sorted:
        """The files of a condition: those that certainly match as a whole, and those to read."""
        sure = condition.predicate if condition.is_whole else None
        state = self.state
        return sort_by_match(
            self.files(condition.predicate), sure, state.schema, state.partition_columns
        )

    def rows(self, adds: Iterable[AddFile]) -> DataFrame:
        """The rows of some files."""
        return self.reader.of_adds(self.location, self.state, adds)

    @cached_property
    def row_ids(self) -> RowIds:
        """The columns in which rows keep their ids, if the table tracks rows."""
        if not self.state.has_row_ids:
            return RowIds()
        return RowIds.of(self.state, self._with_ids(self.rows([])).schema)

    def rows_to_move(self, adds: Iterable[AddFile]) -> DataFrame:
        """The rows of some files, with their ids if the table tracks them."""
        return self._moving(adds, ())

    def placed_rows(self, adds: Iterable[AddFile]) -> DataFrame:
        """The rows of some files to move, each with its file and its position there."""
        from pyspark.sql import functions as sql

        place = {"file_path": FILE, "row_index": ROW}
        return self._moving(
            adds, [sql.col(f"_metadata.{name}").alias(ours) for name, ours in place.items()]
        )

    def _moving(self, adds: Iterable[AddFile], more: Sequence[Column]) -> DataFrame:
        if not self.state.has_row_ids:
            return self.rows(adds).select("*", *more)
        files = list(adds)
        # A transaction's own files get their ids when it commits.
        own = [add for add in files if add.base_row_id is None]
        known = [add for add in files if add.base_row_id is not None]
        rows = self._with_ids(self.rows(known)).select("*", *more)
        if not own:
            return rows
        new = [value.alias(name) for name, value in self.row_ids.new().items()]
        return rows.unionByName(self.rows(own).select("*", *new, *more))

    def _with_ids(self, rows: DataFrame) -> DataFrame:
        state = self.state
        table = self.gateway.table(self.location, state.metadata, state.protocol)
        return self.gateway.with_row_ids(table, rows)

    def by_place(self, adds: Iterable[AddFile]) -> dict[str, AddFile]:
        """Files by place, for paths as Spark reports them."""
        return {place_of(add.path, self.location): add for add in adds}

    # --- writing ------------------------------------------------------------------------

    def schema(self, plan: Plan) -> SparkStruct:
        """The columns that rows are written with."""
        from pyspark.sql.types import StructType as SparkStruct

        return SparkStruct.fromJson(json.loads(plan.metadata.schema_string))

    def write(self, plan: Plan, frame: DataFrame, identity: Iterable[str] = ()) -> Written:
        """New files with rows that already fit; `_change_type` separates changes from rows.

        `identity` names columns that got new values.
        """
        table = self.gateway.table(self.location, plan.metadata, plan.protocol)
        return self.gateway.write(table, self.row_ids.marked(frame), identity=identity)

    def discard(self, files: Iterable[NewFile]) -> None:
        """Delete new files of an operation that failed halfway."""
        self.abandon([file.path for file in files])

    def outcome(
        self,
        *,
        operation: str,
        params: Mapping[str, Any],
        reads: Reads,
        metrics: Mapping[str, int],
        changes: Sequence[Action] = (),
        gone: Iterable[Removable] = (),
        added: Sequence[AddFile | CdcFile] = (),
        files: Sequence[NewFile] = (),
    ) -> Outcome:
        """What the operation commits; an empty write if nothing changed."""
        removed = removes(gone, deletion_timestamp=writing.now_ms())
        actions: list[Action] = [*changes, *removed, *added]
        write = writing.Write(
            actions=actions,
            operation=operation,
            operation_params=params,
            reads=reads,
            read_version=self.snapshot.version,
            files=files,
            metrics=metrics,
        )
        return write, metrics


def changed_files(gone: Iterable[Removable], added: Iterable[AddFile | CdcFile]) -> FileChanges:
    """Which files went and which came, for the metrics."""
    came = list(added)
    return FileChanges(
        gone,
        [item for item in came if isinstance(item, AddFile)],
        [item for item in came if isinstance(item, CdcFile)],
    )


def reads_of(predicate: Predicate | None, used: Iterable[AddFile]) -> Reads:
    """What an operation has read: the rows of a predicate, and the files that contained them."""
    if predicate is None:
        return Reads.all()
    return Reads.where(predicate, files=frozenset((add.path, add.dv_id) for add in used))
