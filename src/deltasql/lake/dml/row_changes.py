"""`delete` and `update`: which rows they affect, and what is written in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from deltasql.data.computing.new_rows import NewRows
from deltasql.data.expressions.conditions import TARGET, Condition, condition_of
from deltasql.data.expressions.engine import quoted
from deltasql.data.expressions.session import Session, relation_of
from deltasql.data.reading.scan import ROW
from deltasql.lake import writing
from deltasql.lake.dml.conditions import Places, find_rows, find_values
from deltasql.lake.dml.metrics import Clock, change_metrics, picks_rows, rows_in, total
from deltasql.lake.dml.operation import RowFiles, TableAt
from deltasql.log.removal import every_row, sort_by_match
from deltasql.spec.actions import AddFile

Outcome = tuple[writing.Write, Mapping[str, int]]


def delete(session: Session, table: TableAt, where: str | None) -> Outcome:
    """Delete the rows that satisfy a condition, by default all; an empty write if none do."""
    clock, files = Clock(), RowFiles(table)
    if where is None:
        files.take_whole(every_row(table.snapshot.adds(None)))
        deleted = rows_in(files.gone)
        return _outcome(
            "DELETE", files, clock, None, {"Deleted": deleted}, files.changed().of_rows()
        )
    condition = condition_of(session, table.state.schema, where)
    with clock.phase("scanTimeMs"):
        sure = condition.predicate if condition.is_whole else None
        adds, state = table.snapshot.adds(condition.predicate), table.state
        found = sort_by_match(adds, sure, state.schema, state.partition_columns)
        whole, candidates = found.whole, found.partial
        lost = find_rows(session, table, candidates, condition)
        if lost and whole and files.has_feed:
            # Readers of change files look at nothing else, so rows of whole files are read, too.
            whole, candidates = [], [*whole, *candidates]
            lost = find_rows(session, table, candidates, condition)
    with clock.phase("rewriteTimeMs"), files.or_nothing():
        files.take_whole(whole)
        if lost:
            files.replace(candidates, lost)
            if files.has_feed:
                files.write_changes(("delete", files.rows_at(candidates, lost)))
    deleted = total([*map(len, lost.values()), rows_in(whole)])
    told = files.changed().of_rows()
    return _outcome("DELETE", files, clock, condition, {"Deleted": deleted}, told)


def update(
    session: Session, table: TableAt, where: str | None, values: Mapping[str, str]
) -> Outcome:
    """Set columns in the rows of a condition, by default all; an empty write without any."""
    clock, files = Clock(), RowFiles(table)
    condition = condition_of(session, table.state.schema, "TRUE" if where is None else where)
    rows = _Updated(session, table, values)
    with clock.phase("scanTimeMs"):
        candidates = list(table.snapshot.adds(condition.predicate))
        lost, known = find_values(session, table, candidates, condition)
    with clock.phase("rewriteTimeMs"), files.or_nothing():
        if lost:
            written = files.replace(candidates, lost, lambda: rows.made(candidates, lost, known))
            if files.has_feed:
                files.write_changes(
                    ("update_preimage", files.rows_at(candidates, lost)),
                    ("update_postimage", files.feed().rows(written[0])),
                )
    updated = sum(map(len, lost.values()))
    picks = picks_rows(table.state, condition.predicate, condition.columns)
    told = files.changed().of_update(marks_some=picks and table.state.writes_deletion_vectors)
    return _outcome("UPDATE", files, clock, condition, {"Updated": updated}, told)


class _Updated:
    """The rows of an update, with their new values."""

    def __init__(self, session: Session, table: TableAt, values: Mapping[str, str]) -> None:
        self._session = session
        self._table = table
        state = table.state
        self._rows = NewRows(session, state.schema, state.properties)
        translator = session.translator(relation_of(state.schema, TARGET))
        self._values = self._rows.values(translator, values, old=TARGET, alias=TARGET)
        self._explicit = self._rows.set_names(values, TARGET)

    def made(
        self, candidates: Sequence[AddFile], places: Places, known: pa.Table | None
    ) -> Iterator[pa.RecordBatch]:
        """The new rows that replace those at some places; `known` are these and columns of them."""
        chosen = [f"{sql} AS {quoted(name)}" for name, sql in self._values.items()]
        hidden = self._table.hidden
        if hidden:
            # The row keeps its id, and was last changed by this version.
            chosen += [f"{quoted(TARGET)}.{quoted(hidden[0])}", _nothing(hidden[1])]
        reader = self._table.rows
        batches = self._old(candidates, places, known)
        with self._session.engine.reading(reader.schema(None, ids=True), batches) as name:
            query = f"SELECT {', '.join(chosen)} FROM {name} AS {quoted(TARGET)}"  # noqa: S608
            yield from self._rows.made(query, self._explicit)

    def _old(
        self, candidates: Sequence[AddFile], places: Places, known: pa.Table | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows at some places; columns that are known are not read again."""
        reader = self._table.rows
        if known is None:
            yield from reader.read(candidates, only=places, ids=True)
            return
        schema, at = reader.schema(None, ids=True), 0
        names = [item.name for item in self._table.state.schema.fields]
        unread = [name for name in names if name not in known.column_names]
        for batch in reader.read(candidates, columns=unread, only=places, ids=True):
            (found,) = known.slice(at, batch.num_rows).combine_chunks().to_batches()
            at += batch.num_rows
            assert found.column(ROW).equals(batch.column(ROW)), "rows in another order"
            columns = [
                found.column(item.name) if item.name in known.column_names
                else batch.column(item.name)
                for item in schema
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _nothing(name: str) -> str:
    return f"CAST(NULL AS BIGINT) AS {quoted(name)}"


def _outcome(
    operation: str,
    files: RowFiles,
    clock: Clock,
    condition: Condition | None,
    rows: Mapping[str, int | None],
    changed: Mapping[str, int],
) -> Outcome:
    metrics = change_metrics({**rows, "Copied": files.copied}, changed, clock)
    write = files.outcome(
        operation=operation,
        params={} if condition is None else {"predicate": [condition.text]},
        predicate=None if condition is None else condition.predicate,
        used=files.gone,
        metrics=metrics,
    )
    return write, metrics
