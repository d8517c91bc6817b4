"""A table at one version: what it is made of, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import described
from deltasql.data.expressions.conditions import Condition, readable_condition
from deltasql.data.reading.deletion import deleted_in, lists_of
from deltasql.lake.arguments import checked
from deltasql.lake.scan import Scan
from deltasql.log.predicates.predicate import Predicate, bind, columns, parse
from deltasql.log.pruning.files import Pruner, is_partition_only, matching_partitions
from deltasql.log.pruning.partition_ranges import partition_ranges
from deltasql.log.pruning.range_predicates import to_ranges
from deltasql.log.pruning.ranges import Everything
from deltasql.log.state import TableState
from deltasql.log.timestamps import from_ms
from deltasql.objectstore import ObjectNotFoundError, ObjectStore
from deltasql.showing.html import html_record, schema_html
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, Metadata, Protocol
from deltasql.store.file_rows import from_batch, to_table
from deltasql.store.interface import TxnLogReader

# With more survivors than this, the exact check of every file costs more than it can save.
_EXACT_LIMIT = 20_000

FileKey = tuple[str, str]
# Called with what is read: the rows of a predicate, or all.
Noted = Callable[[Predicate | None], None]
# Keeps vacuum away from a table's version while it is read.
Hold = Callable[[int, int], AbstractContextManager[None]]


@dataclass(slots=True)
class Overlay:
    """What a transaction has written to a table but not committed yet."""

    adds: dict[FileKey, AddFile] = field(default_factory=dict)
    removes: set[FileKey] = field(default_factory=set)

    def copy(self) -> Overlay:
        """A copy, which later writes don't change."""
        return Overlay(dict(self.adds), set(self.removes))


@checked
class Snapshot:
    """A table at one version, read from SQL alone."""

    def __init__(
        self,
        reader: TxnLogReader,
        objects: ObjectStore,
        table_id: int,
        state: TableState,
        overlay: Overlay | None = None,
        hold: Hold | None = None,
        noted: Noted | None = None,
    ) -> None:
        self._hold = hold
        self._noted = noted
        self._reader = reader
        self._objects = objects
        self._table_id = table_id
        self._state = state
        self._overlay = overlay

    def __repr__(self) -> str:
        return f"<Snapshot version {self.version} at {self.timestamp.isoformat()}>"

    def _repr_html_(self) -> str:
        told = {
            "committed": self.timestamp,
            "partitioned by": ", ".join(self.metadata.partition_columns),
        }
        return html_record(f"version {self.version}", told) + schema_html(self.schema)

    def with_state(self, state: TableState) -> Snapshot:
        """The same files under other metadata: that of an uncommitted transaction."""
        return Snapshot(
            self._reader, self._objects, self._table_id, state, self._overlay, self._hold,
            self._noted,
        )  # fmt: skip

    def noting(self, noted: Noted) -> Snapshot:
        """The same, which says what is read of its files and rows."""
        return Snapshot(
            self._reader, self._objects, self._table_id, self._state, self._overlay, self._hold,
            noted,
        )  # fmt: skip

    @contextmanager
    def held(self) -> Iterator[None]:
        """Makes vacuum keep the files of the version while a read goes on."""
        hold = nullcontext() if self._hold is None else self._hold(self._table_id, self.version)
        with hold:
            try:
                yield
            except ObjectNotFoundError as error:
                raise _is_gone(self.version, error) from error

    @property
    def version(self) -> int:
        """The version."""
        return self._state.version

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""
        return from_ms(self._state.in_commit_timestamp)

    @property
    def state(self) -> TableState:
        """Metadata and protocol, parsed."""
        return self._state

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's schema, with comments and other metadata of its columns."""
        return described(self._state.schema)

    @property
    def metadata(self) -> Metadata:
        """The current metaData action."""
        return self._state.metadata

    @property
    def protocol(self) -> Protocol:
        """The current protocol action."""
        return self._state.protocol

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self._state.properties

    @cached_property
    def txns(self) -> dict[str, int]:
        """How far each application has got, by application id."""
        found = self._reader.txns(self._table_id, self.version)
        return {record.app_id: record.txn_version for record in found}

    @cached_property
    def domains(self) -> dict[str, str]:
        """Configuration of each domain."""
        return self._reader.domains(self._table_id, self.version)

    def files(self, where: str | None = None) -> pa.Table:
        """The live files, or those that may hold rows that satisfy `where`.

        JSON columns (partition_values, stats, deletion_vector, tags) are text, verbatim.
        """
        return pa.Table.from_batches(self.file_batches(where), schema=to_table([]).schema)

    def file_batches(self, where: str | None = None) -> Iterator[pa.RecordBatch]:
        """The same as `files`, batch by batch in bounded memory."""
        condition = self.condition(where)
        return self.batches(None if condition is None else condition.predicate)

    def batches(self, predicate: Predicate | None = None) -> Iterator[pa.RecordBatch]:
        """Like `file_batches`, pruned by a bound predicate."""
        self._note(predicate)
        for batch in self._stored_batches(predicate):
            kept = self._without_outdated(batch)
            if kept.num_rows:
                yield kept
        if self._overlay is not None and self._overlay.adds:
            added = self._exactly(to_table(self._overlay.adds.values()), predicate)
            yield from added.to_batches()

    def adds(self, predicate: Predicate | None = None) -> Iterator[AddFile]:
        """The live files as actions, pruned by a bound predicate."""
        self._note(predicate)
        for batch in self._stored_batches(predicate):
            yield from from_batch(self._without_outdated(batch))
        if self._overlay is not None:
            yield from self._own_adds(self._overlay, predicate)

    def having(self, keys: Collection[FileKey]) -> set[FileKey]:
        """Which of these files are live."""
        return {
            key
            for batch in self.batches()
            if _holds(batch, keys)
            for add in from_batch(batch)
            if (key := (add.path, add.dv_id)) in keys
        }

    def scan(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """The rows, lazily; `limit` is how many at most.

        A condition that the log can't express is left to DuckDB, as in `delete` and `update`.
        """
        return Scan(
            self, self._objects, condition=self.condition(where), columns=columns, limit=limit
        )

    def condition(self, where: str | None) -> Condition | None:
        """A WHERE text on the rows of this schema."""
        return None if where is None else readable_condition(self._state.schema, where)

    def head(self, rows: int = 5) -> pa.Table:
        """Some rows, to see what they look like."""
        return self.scan(limit=rows).to_arrow()

    def count(self, where: str | None = None) -> int:
        """How many rows there are; from the log alone where that is exact."""
        return self.scan(where, columns=[]).count()

    def min_max(self, column: str, where: str | None = None) -> tuple[Any, Any]:
        """The least and the greatest value of a column; from the log alone where that is exact."""
        return self.scan(where).min_max(column)

    def partitions(self) -> list[dict[str, str | None]]:
        """The values of the partition columns that have rows, as the log writes them."""
        if not self._state.partition_columns:
            return []
        found = {add.path: add.partition_values for add in self.adds()}
        distinct = {tuple(sorted(values.items())): dict(values) for values in found.values()}
        return [distinct[key] for key in sorted(distinct, key=repr)]

    def deletion_vectors(self) -> pa.Table:
        """The files with deleted rows, and the places of these rows in them."""
        marked = [add for add in self.adds() if add.deletion_vector is not None]
        rows = [deleted_in(self._objects, add) for add in marked]
        return pa.table(
            {
                "path": pa.array([add.path for add in marked], pa.string()),
                "deleted_rows": lists_of(rows),
            }
        )

    def bind(self, where: str | None) -> Predicate | None:
        """A WHERE text as a predicate on this schema."""
        return None if where is None else bind(parse(where), self._state.schema)

    def _note(self, predicate: Predicate | None) -> None:
        if self._noted is not None:
            self._noted(predicate)

    def _stored_batches(self, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        if predicate is None:
            yield from self._reader.files(self._table_id, self.version)
            return
        state = self._state
        ranges = to_ranges(predicate, state.schema, state.stats_columns)
        reader = self._reader.files(
            self._table_id,
            self.version,
            partition_keys=self._partition_keys(predicate),
            ranges=None if isinstance(ranges, Everything) else ranges,
        )
        if is_partition_only(predicate, state.partition_columns):
            yield from reader
            return
        seen = 0
        for batch in reader:
            seen += batch.num_rows
            if seen > _EXACT_LIMIT:
                yield batch
            else:
                yield from self._exactly(pa.table(batch), predicate).to_batches()

    def _partition_keys(self, predicate: Predicate) -> list[int] | None:
        """The partitions that may match; None if the predicate says nothing about them."""
        partitioned_by = {name.lower() for name in self._state.partition_columns}
        if not any(path[0].lower() in partitioned_by for path in columns(predicate)):
            return None
        schema, names = self._state.schema, self._state.partition_columns
        # An index leaves few partitions to check one by one.
        found = self._reader.partitions(self._table_id, partition_ranges(predicate, schema, names))
        partitions = ((key, codec.load_partition_values(values)) for key, values in found)
        return matching_partitions(predicate, schema, names, partitions)

    def _exactly(self, files: pa.Table, predicate: Predicate | None) -> pa.Table:
        if predicate is None:
            return files
        pruner = self._pruner(predicate)
        texts = zip(
            files.column("partition_values").to_pylist(),
            files.column("stats").to_pylist(),
            strict=True,
        )
        keep = [
            pruner.may_match(partition_values=codec.load_partition_values(values), stats=stats)
            for values, stats in texts
        ]
        return files if all(keep) else files.filter(pa.array(keep, pa.bool_()))

    def _pruner(self, predicate: Predicate) -> Pruner:
        return Pruner(predicate, self._state.schema, self._state.partition_columns)

    def _own_adds(self, overlay: Overlay, predicate: Predicate | None) -> Iterator[AddFile]:
        """The transaction's own files, pruned like those of the database."""
        pruner = None if predicate is None else self._pruner(predicate)
        for add in overlay.adds.values():
            if pruner is None or pruner.may_match(
                partition_values=add.partition_values, stats=add.stats
            ):
                yield add

    def _without_outdated(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without files that the transaction has removed or added again."""
        if self._overlay is None or not (self._overlay.removes or self._overlay.adds):
            return batch
        outdated = self._overlay.removes | self._overlay.adds.keys()
        if not _holds(batch, outdated):
            return batch
        keep = [(add.path, add.dv_id) not in outdated for add in from_batch(batch)]
        return batch.filter(pa.array(keep, pa.bool_()))


def _holds(batch: pa.RecordBatch, keys: Collection[FileKey]) -> bool:
    """Whether a batch of files has one of these paths, under whatever deletion vector."""
    wanted = pa.array(sorted({path for path, _ in keys}), pa.string())
    return bool(pc.any(pc.is_in(batch.column("path"), value_set=wanted)).as_py())


def _is_gone(version: int, error: ObjectNotFoundError) -> ObjectNotFoundError:
    """The error for a file of a version that is not there, in the words of whoever reads it."""
    return ObjectNotFoundError(
        f"version {version} can't be read: {error.problem}",
        cause="vacuum deletes what only versions before its retention have; if it was not vacuum, "
        f"{error.cause}",
        remedy="read a newer version; dl_vacuum_files records what vacuum deleted, and when. If it "
        f"did not, {error.remedy}",
        path=error.path,
        is_transient=False,
    )
