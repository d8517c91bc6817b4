"""Runs a merge: the matching rows are found once, then files are rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from deltasql.data.computing.identity import (
    Numbers,
    is_identity,
    marks_of,
    numbers_of,
    with_marks,
)
from deltasql.data.computing.new_rows import NewRows, name_parts
from deltasql.data.expressions import dialect
from deltasql.data.expressions.engine import quoted
from deltasql.data.expressions.scope import OWN
from deltasql.data.expressions.session import Session, relation_of
from deltasql.data.reading.placed import FILE
from deltasql.data.reading.scan import ROW
from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.lake import writing
from deltasql.lake.dml.conditions import Places, gathered
from deltasql.lake.dml.merge_builder import Clause, Merge, Side, merge_params
from deltasql.lake.dml.merge_pruning import MergePruning
from deltasql.lake.dml.merge_source import SOURCE_ROW, MergeSource
from deltasql.lake.dml.metrics import Clock, merge_metrics
from deltasql.lake.dml.operation import RowFiles, TableAt
from deltasql.lake.dml.row_changes import Outcome
from deltasql.log.predicates.predicate import Predicate
from deltasql.spec.actions import Action, AddFile, Metadata, Protocol
from deltasql.spec.properties import GENERATION_EXPRESSION

PAIRS = f"{OWN}pairs"
CLAUSE = f"{OWN}clause"
_KEPT = -1


@dataclass(frozen=True, slots=True)
class Prepared:
    """A merge whose source is loaded; it can be run, and run again on a newer version."""

    session: Session
    merge: Merge
    source: MergeSource

    def __call__(self, _: Session, table: TableAt) -> Outcome:
        """What the merge commits to a table."""
        return _Run(self, table).outcome()


def prepared(session: Session, merge: Merge) -> Prepared:
    """Load the source of a merge into `session`, which has to stay open."""
    return Prepared(session, merge, MergeSource(session, merge.source, merge.source_alias))


class _Run:
    """One merge on one snapshot."""

    def __init__(self, prepared: Prepared, table: TableAt) -> None:
        self._clock = Clock()
        self._session, self._merge = prepared.session, prepared.merge
        self._source = prepared.source
        self._table, self._changes = _evolved(table, prepared)
        state = self._table.state
        self._target = relation_of(state.schema, self._merge.target_alias)
        self._rows = NewRows(self._session, state.schema, state.properties)
        self._files = RowFiles(self._table)
        self._alias = quoted(self._merge.target_alias)
        self._numbers = [numbers_of(item) for item in state.schema.fields if is_identity(item)]

    def outcome(self) -> Outcome:
        """Find what is touched, and write what replaces it."""
        merge, engine = self._merge, self._session.engine
        both = self._session.translator(self._target, self._source.relation)
        node = dialect.parse(engine, merge.condition)
        condition = both.condition(node)
        with self._clock.phase("scanTimeMs"):
            candidates, predicate = self._candidates(node, both)
            self._find(candidates, condition, both)
            lost = self._places("true")
        with self._clock.phase("rewriteTimeMs"), self._files.or_nothing():
            self._write(candidates, lost)
        metrics = merge_metrics(
            merge.clauses,
            self._counts(),
            self._files.changed(),
            self._clock,
            source=self._source.count,
            copied=self._files.copied,
        )
        write = self._files.outcome(
            operation="MERGE",
            params=merge_params(merge),
            predicate=predicate,
            used=self._used(candidates, lost),
            changes=self._changed(),
            metrics=metrics,
        )
        return write, metrics

    def _changed(self) -> list[Action]:
        """The metadata changes, including how far the identity columns have advanced."""
        before = self._table.state.metadata
        after = with_marks(before, marks_of(self._numbers))
        return writing.numbered(before, after, self._changes)

    # --- which rows -----------------------------------------------------------------------

    def _candidates(
        self, node: dialect.Node, both: dialect.Translator
    ) -> tuple[list[AddFile], Predicate | None]:
        snapshot, state = self._table.snapshot, self._table.state
        # Rows that the condition excludes are rows that the source lacks: every file counts.
        if self._merge.of("not matched by source"):
            return list(snapshot.adds(None)), None
        pruning = MergePruning(self._session, state, self._source, both, self._merge.target_alias)
        predicate, keys = pruning.reach(node)
        return pruning.with_keys(list(snapshot.adds(predicate)), keys), predicate

    def _find(
        self, candidates: Sequence[AddFile], condition: str, both: dialect.Translator
    ) -> None:
        """Make the table of pairs: each row that matches or changes, and its clause."""
        matched = self._clause("matched", both)
        lost = self._clause("not matched by source", both) if self._lacks else str(_KEPT)
        used = [name for alias, name in both.used if alias == self._merge.target_alias]
        columns = [name for name in self._target.columns if name in used]
        source_row = f"{quoted(self._merge.source_alias)}.{SOURCE_ROW}"
        clause = f"CASE WHEN {source_row} IS NOT NULL THEN {matched} ELSE {lost} END"
        engine, reader = self._session.engine, self._table.rows
        engine.rows(f"DROP TABLE IF EXISTS {PAIRS}")
        # Build the join on the source: its size is known, and it is usually the smaller side.
        with (
            engine.joining_as_written(),
            engine.reading(
                reader.schema(columns), reader.read(candidates, columns=columns)
            ) as name,
        ):
            engine.rows(
                f"CREATE TEMP TABLE {PAIRS} AS SELECT * FROM ("  # noqa: S608
                f"SELECT {self._alias}.{ROW}, {self._alias}.{FILE}, {source_row} AS {SOURCE_ROW}, "
                f"CAST({clause} AS INTEGER) AS {CLAUSE} FROM {name} AS {self._alias} "
                f"{'LEFT' if self._lacks else 'INNER'} JOIN {self._source.sql} ON {condition}) "
                f"WHERE {SOURCE_ROW} IS NOT NULL OR {CLAUSE} >= 0"
            )
        # As in Delta, pairs count even if they would change nothing.
        if (self._merge.of("matched") or self._lacks) and not _deletes_all(self._merge):
            self._must_be_unique()

    @property
    def _lacks(self) -> bool:
        return bool(self._merge.of("not matched by source"))

    def _clause(self, side: Side, translator: dialect.Translator) -> str:
        """The number of the clause for a row of one side."""
        found = str(_KEPT)
        for number, clause in reversed(list(enumerate(self._merge.clauses))):
            if clause.side != side:
                continue
            if clause.condition is None:
                found = str(number)
            else:
                node = dialect.parse(self._session.engine, clause.condition)
                if side == "not matched by source":
                    own = self._session.translator(self._target)
                    holds = own.condition(node)
                    translator.used |= own.used
                elif side == "not matched":
                    holds = self._session.translator(self._source.relation).condition(node)
                else:
                    holds = translator.condition(node)
                found = f"CASE WHEN {holds} THEN {number} ELSE {found} END"
        return found

    def _must_be_unique(self) -> None:
        doubled = self._session.engine.rows(
            f"SELECT 1 FROM {PAIRS} WHERE {SOURCE_ROW} IS NOT NULL "  # noqa: S608
            f"GROUP BY {FILE}, {ROW} HAVING count(*) > 1 LIMIT 1"
        )
        if doubled:
            raise ValidationError(
                "a row of the table matches several rows of the source",
                cause="it is ambiguous which of them to update or delete it by",
                remedy="make the source's keys unique, or narrow the condition",
            )

    def _places(self, condition: str) -> Places:
        """The places of rows that change."""
        return gathered(
            self._session.engine.stream(
                f"SELECT DISTINCT {ROW}, {FILE} FROM {PAIRS} "  # noqa: S608
                f"WHERE {CLAUSE} >= 0 AND {condition} ORDER BY {FILE}, {ROW}"
            )
        )

    def _used(self, candidates: Sequence[AddFile], lost: Places) -> list[AddFile]:
        """The files the outcome rests on: what was not inserted rests on the rows that match."""
        numbers = set(lost)
        if self._merge.of("not matched"):
            found = self._session.engine.rows(f"SELECT DISTINCT {FILE} FROM {PAIRS}")  # noqa: S608
            numbers |= {row[0] for row in found}
        return [candidates[number] for number in sorted(numbers)]

    def _counts(self) -> dict[int, int]:
        """How many rows of the table each clause has changed."""
        found = self._session.engine.rows(
            f"SELECT {CLAUSE}, count(DISTINCT ({FILE}, {ROW})) FROM {PAIRS} "  # noqa: S608
            f"WHERE {CLAUSE} >= 0 GROUP BY 1"
        )
        return {**dict(found), **self._inserted}

    # --- what is written ------------------------------------------------------------------

    _inserted: dict[int, int]

    def _write(self, candidates: Sequence[AddFile], lost: Places) -> None:
        self._inserted = {}
        numbered = list(enumerate(self._merge.clauses))
        updates = [number for number, clause in numbered if clause.verb == "update"]
        inserts = self._merge.of("not matched")
        changed = self._places(f"{CLAUSE} IN ({_list(updates)})") if updates else {}

        def updated() -> Iterator[pa.RecordBatch]:
            return self._updated(updates, candidates, changed) if changed else iter(())

        def inserted() -> Iterator[pa.RecordBatch]:
            return self._inserted_rows() if inserts else iter(())

        files = self._files
        written = files.replace(candidates, lost, updated, inserted)
        if not files.has_feed or not lost:
            return
        deletes = [number for number, clause in numbered if clause.verb == "delete"]
        deleted = self._places(f"{CLAUSE} IN ({_list(deletes)})") if deletes else {}
        feed = files.feed()
        files.write_changes(
            ("delete", files.rows_at(candidates, deleted) if deleted else iter(())),
            ("update_preimage", files.rows_at(candidates, changed) if changed else iter(())),
            ("update_postimage", feed.rows(written[0])),
            ("insert", feed.rows(written[1])),
        )

    def _updated(
        self, clauses: Sequence[int], candidates: Sequence[AddFile], places: Places
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the table as their clauses update them."""
        engine, hidden = self._session.engine, self._table.hidden
        both = self._session.translator(self._target, self._source.relation)
        only = self._session.translator(self._target)
        made: dict[int, dict[str, str]] = {}
        explicit: list[set[str]] = []
        for number in clauses:
            clause = self._merge.clauses[number]
            translator = only if clause.side == "not matched by source" else both
            given = self._given(clause)
            alias = self._merge.target_alias
            made[number] = self._rows.values(translator, given, old=alias, alias=alias)
            explicit.append(self._rows.set_names(given, alias))
        chosen = [
            f"{_cased(f'pairs.{CLAUSE}', {n: made[n][name] for n in clauses})} AS {quoted(name)}"
            for name in self._target.columns
        ]
        if hidden:
            # The row keeps its id, and was last changed by this version.
            chosen += [f"{self._alias}.{quoted(hidden[0])}", _nothing(hidden[1])]
        always = explicit[0].intersection(*explicit)
        reader = self._table.rows
        batches = reader.read(candidates, only=places, ids=True)
        with engine.reading(reader.schema(None, ids=True), batches) as name:
            yield from self._rows.made(
                f"SELECT {', '.join(chosen)} FROM {name} AS {self._alias} "  # noqa: S608
                f"JOIN {PAIRS} AS pairs ON pairs.{ROW} = {self._alias}.{ROW} "
                f"AND pairs.{FILE} = {self._alias}.{FILE} "
                f"LEFT JOIN {self._source.sql} ON {quoted(self._merge.source_alias)}.{SOURCE_ROW} "
                f"= pairs.{SOURCE_ROW}",
                always,
                partly=set().union(*explicit) - always,
            )

    def _inserted_rows(self) -> Iterator[pa.RecordBatch]:
        """Rows of the source that match nothing, as their clauses insert them."""
        engine = self._session.engine
        source = self._session.translator(self._source.relation)
        clause = self._clause("not matched", source)
        numbers = [n for n, c in enumerate(self._merge.clauses) if c.side == "not matched"]
        target = self._merge.target_alias
        given = {number: self._given(self._merge.clauses[number]) for number in numbers}
        explicit = [self._rows.set_names(values, target) for values in given.values()]
        absent = (
            f"SELECT *, {clause} AS {CLAUSE} FROM {self._source.sql} WHERE {SOURCE_ROW} NOT IN "  # noqa: S608
            f"(SELECT {SOURCE_ROW} FROM {PAIRS} WHERE {SOURCE_ROW} IS NOT NULL)"
        )
        alias = quoted(self._merge.source_alias)
        counted = engine.rows(
            f"SELECT {CLAUSE}, count(*) FROM ({absent}) WHERE {CLAUSE} >= 0 GROUP BY 1"  # noqa: S608
        )
        self._inserted = dict(counted)
        # Even if no row is inserted: this reports what can't be set.
        always = explicit[0].intersection(*explicit)
        handed = self._handed_out(sum(self._inserted.values()), always)
        made = {
            number: self._rows.values(source, values, old=None, alias=target, numbers=handed)
            for number, values in given.items()
        }
        if not counted:
            return
        chosen = [
            f"{_cased(f'{alias}.{CLAUSE}', {n: made[n][name] for n in numbers})} AS {quoted(name)}"
            for name in self._target.columns
        ]
        chosen += [_nothing(name) for name in self._table.hidden]
        query = f"SELECT {', '.join(chosen)} FROM ({absent}) AS {alias} WHERE {CLAUSE} >= 0"  # noqa: S608
        yield from self._rows.made(query, always, partly=set().union(*explicit) - always)

    def _handed_out(self, count: int, explicit: set[str]) -> dict[str, str]:
        """SQL for the numbers of `count` inserted rows, for identity columns that need them."""
        return {
            item.name: _number(item, count) for item in self._numbers if item.name not in explicit
        }

    def _given(self, clause: Clause) -> dict[str, str]:
        """What a clause sets; one for all columns sets those of the source."""
        if clause.values is not None:
            return dict(clause.values)
        there = {name.lower(): name for name in self._source.relation.columns}
        alias, fields = quoted(self._merge.source_alias), self._table.state.schema.fields
        wanted = [item for item in fields if item.name.lower() not in clause.without]
        missing = [
            item.name
            for item in wanted
            # Computed columns need not be set.
            if item.name.lower() not in there
            and not is_identity(item)
            and GENERATION_EXPRESSION not in item.metadata
        ]
        if missing and not self._merge.evolves:
            raise SchemaMismatchError(
                f"the source has no column {', '.join(missing)}",
                cause=f"a clause {clause.verb}s all columns of rows {clause.side}",
                remedy="name the columns to set, or allow the difference: with_schema_evolution()",
            )
        return {
            quoted(item.name): f"{alias}.{quoted(there[item.name.lower()])}"
            for item in wanted
            if item.name.lower() in there
        }


def _cased(clause: str, values: dict[int, str]) -> str:
    """The value for each row, chosen by its clause."""
    if len(values) == 1:
        return next(iter(values.values()))
    parts = [f"WHEN {number} THEN {sql}" for number, sql in values.items()]
    return f"CASE {clause} {' '.join(parts)} END"


def _number(item: Numbers, count: int) -> str:
    first = item.reserve(count)
    return f"(CAST({first} AS BIGINT) + CAST({item.step} AS BIGINT) * (row_number() OVER () - 1))"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _nothing(name: str) -> str:
    return f"CAST(NULL AS BIGINT) AS {quoted(name)}"


def _deletes_all(merge: Merge) -> bool:
    """Whether every matching row is deleted, however often it matches."""
    return [(c.verb, c.condition) for c in merge.of("matched")] == [("delete", None)]


def _evolved(table: TableAt, prepared: Prepared) -> tuple[TableAt, list[Action]]:
    """The table as the merge leaves it: with the source's new columns, if it may gain any."""
    merge, incoming = prepared.merge, prepared.source.schema
    if not merge.evolves:
        return table, []
    inserts = [clause for clause in merge.clauses if clause.verb != "delete"]
    if all(clause.values is not None for clause in inserts):
        named = {
            name_parts(key)[-1].lower()
            for key in chain.from_iterable(clause.values or {} for clause in inserts)
        }
        incoming = pa.schema([item for item in incoming if item.name.lower() in named])
    metadata, changes = writing.evolved(table.state, incoming)
    protocol = next((item for item in changes if isinstance(item, Protocol)), table.state.protocol)
    state = replace(table.state, metadata=metadata, protocol=protocol)
    assert isinstance(metadata, Metadata)
    return table.with_state(state), changes
