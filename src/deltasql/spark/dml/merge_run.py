"""Runs a merge: matching rows are found once, then files are rewritten."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from deltasql.errors import ValidationError
from deltasql.lake.dml.metrics import Clock, FileChanges, merge_metrics, rows_in, total
from deltasql.log.removal import Removable, rewritten
from deltasql.spark.dml.assignments import as_column, column_names, quoted
from deltasql.spark.dml.merge_builder import SOURCE, Merge, Side
from deltasql.spark.dml.merge_pairs import Found, Pairs, with_row_numbers
from deltasql.spark.dml.merge_pruning import MergePruning, Reach
from deltasql.spark.dml.merge_rows import CLAUSE, MergeRows
from deltasql.spark.dml.operation import (
    FILE,
    ROW,
    DmlContext,
    Outcome,
    changed_files,
    reads_of,
)
from deltasql.spark.dml.vectors import Marked, can_mark, mark
from deltasql.spark.native import evolution
from deltasql.spark.native.evolution import Plan
from deltasql.spark.native.gateway import Written
from deltasql.spark.native.paths import picked, place_of
from deltasql.spec.actions import AddFile
from deltasql.spec.schema import StructType, parse_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Tasks per core up to which new rows are written without a shuffle.
_FEW = 2


def run(context: DmlContext, merge: Merge) -> Outcome:
    """What the merge commits; no write if it changes nothing."""
    return _Run(context, merge).write()


class _Run:
    """One merge on one snapshot."""

    def __init__(self, context: DmlContext, merge: Merge) -> None:
        self._clock = Clock()
        self._context = context
        self._merge = merge
        alias = _source_alias(context, merge)
        self._source = with_row_numbers(merge.source).alias(alias)
        self._plan = _plan(context, merge)
        self._rows = MergeRows(context, self._plan, merge, alias)
        self._has_inserts = bool(merge.of("not matched"))

    def write(self) -> Outcome:
        """Find what is touched, and write its replacement."""
        context, merge = self._context, self._merge
        condition = as_column(merge.condition)
        self._must_be_deterministic(condition)
        with self._clock.phase("scanTimeMs"):
            reach = self._reach(condition)
            candidates = context.files(reach.predicate)
        if not merge.of("matched") and not merge.of("not matched by source"):
            return self._insert_only(condition, reach, candidates)
        pairs = Pairs(context, self._rows, candidates, self._source, condition)
        try:
            return self._changed(pairs, reach, candidates)
        finally:
            pairs.close()

    def _must_be_deterministic(self, condition: Column) -> None:
        """Conditions are evaluated several times, and must select the same rows each time."""
        target = self._rows.target(self._context.rows([]))
        both = target.crossJoin(self._source)
        self._context.must_be_deterministic(both, condition)
        seen: dict[Side, DataFrame] = {
            "matched": both,
            "not matched": self._source,
            "not matched by source": target,
        }
        for clause in self._merge.clauses:
            if clause.condition is not None:
                rows = seen[clause.side]
                self._context.must_be_deterministic(rows, as_column(clause.condition))

    def _changed(self, pairs: Pairs, reach: Reach, candidates: Sequence[AddFile]) -> Outcome:
        context, merge = self._context, self._merge
        numbers = [n for n, clause in enumerate(merge.clauses) if clause.side == "matched"]
        with self._clock.phase("scanTimeMs"):
            found = pairs.found(numbers) if candidates else Found()
        if found.is_doubled and not _deletes_all(merge):
            raise ValidationError(
                "a row of the table matches several rows of the source",
                cause="it is ambiguous which of them to update or delete it by",
                remedy="make the source's keys unique, or narrow the condition",
            )
        with self._clock.phase("scanTimeMs"):
            lost = self._lost(pairs, candidates, is_doubled=found.is_doubled)
        places = found.changed | lost.changed
        counts = {**found.counts, **lost.counts}
        touched = picked(candidates, context.location, places)
        parts = []
        used: Sequence[AddFile] = touched
        if self._has_inserts:
            # That a row was not inserted depends on the rows that match, even if they don't change.
            used = picked(candidates, context.location, places | found.matched)
            absent = pairs.absent() if candidates else self._source
            rows = self._rows.inserted(absent, with_changes=bool(touched))
            parts.append(self._spread(rows, reach))
        if not touched:
            return self._outcome(reach, used, (), self._written(parts), counts)
        joined = pairs.joined(touched, is_doubled=found.is_doubled)
        marks = context.marks_rows and can_mark(touched)
        parts.append(self._together(self._rows.result(joined, keeps=not marks), touched))
        if not marks:
            return self._outcome(reach, used, touched, self._written(parts), counts)
        has_lost = bool(merge.of("not matched by source"))
        gone = self._rows.changing(joined).select(FILE, ROW) if has_lost else pairs.marks()
        vectors = mark(context, touched, gone)
        try:
            written = self._written(parts)
        except BaseException:
            context.discard(vectors.files)
            raise
        return self._outcome(reach, used, vectors.gone, written, counts, vectors)

    def _lost(self, pairs: Pairs, candidates: Sequence[AddFile], *, is_doubled: bool) -> Found:
        """Where rows without a match in the source change."""
        side = "not matched by source"
        if not candidates or not self._merge.of("not matched by source"):
            return Found()
        changing = self._rows.changing(pairs.joined(candidates, is_doubled=is_doubled))
        counts: Counter[int] = Counter()
        places = set()
        for path, number, count in changing.groupBy(FILE, CLAUSE).count().collect():
            places.add(place_of(path))
            if self._merge.clauses[number].side == side:
                counts[number] += count
        return Found(changed=frozenset(places), counts=counts)

    def _insert_only(
        self, condition: Column, reach: Reach, candidates: Sequence[AddFile]
    ) -> Outcome:
        context = self._context
        absent = self._source
        if candidates:
            absent = absent.join(
                self._rows.target(context.rows(candidates)), condition, "left_anti"
            )
        rows = self._rows.inserted(absent, with_changes=False)
        written = self._written([self._spread(rows, reach)])
        return self._outcome(reach, candidates, (), written, {})

    def _written(self, parts: Sequence[DataFrame]) -> Written:
        if not parts:
            return Written(())
        frame = reduce(lambda a, b: a.unionByName(b), parts)
        with self._clock.phase("rewriteTimeMs"):
            return self._context.write(self._plan, frame, self._rows.numbered)

    def _outcome(
        self,
        reach: Reach,
        used: Sequence[AddFile],
        gone: Sequence[AddFile],
        written: Written,
        counts: Mapping[int, int],
        vectors: Marked | None = None,
    ) -> Outcome:
        marks, vectors = vectors is not None, vectors or Marked()
        added = [*vectors.added, *written.actions]
        removed = rewritten(gone)
        metrics = self._metrics(reach, removed, changed_files(removed, added), counts, marks=marks)
        return self._context.outcome(
            operation="MERGE",
            params=_params(self._merge),
            reads=reads_of(reach.predicate, used),
            changes=evolution.with_identity(self._plan, written.identity).changes,
            metrics=metrics,
            gone=removed,
            added=added,
            files=[*vectors.files, *written.actions],
        )

    def _metrics(
        self,
        reach: Reach,
        gone: Sequence[Removable],
        files: FileChanges,
        counts: Mapping[int, int],
        *,
        marks: bool,
    ) -> dict[str, int]:
        """What the merge did; inserted rows are those that no other clause has written."""
        clauses = self._merge.clauses
        source = self._source.count() if reach.source_rows is None else reach.source_rows
        copied = 0 if marks else total([rows_in(gone), -sum(counts.values())])
        updated = sum(n for number, n in counts.items() if clauses[number].verb == "update")
        inserted = None if copied is None else total([files.rows_written, -copied, -updated])
        found: dict[int, int | None] = dict(counts)
        inserts = [number for number, clause in enumerate(clauses) if clause.verb == "insert"]
        # Metrics don't distinguish one insert from another.
        found |= dict.fromkeys(inserts[:1], inserted)
        return merge_metrics(clauses, found, files, self._clock, source=source, copied=copied)

    # --- the layout of rows -------------------------------------------------------------

    def _reach(self, condition: Column) -> Reach:
        merge, context = self._merge, self._context
        # Such clauses also concern rows outside the condition: the source lacks those, too.
        if merge.of("not matched by source"):
            return Reach(None)
        text = merge.condition
        if not isinstance(text, str):
            target = self._rows.target(context.rows([]))
            text = context.gateway.text_of(target.crossJoin(self._source), condition)
        pruning = MergePruning(
            context.gateway,
            context.reader,
            context.state,
            target=merge.target_alias,
            source=self._rows.source_alias,
        )
        return pruning.reach(text, self._source)

    def _together(self, rows: DataFrame, touched: Sequence[AddFile]) -> DataFrame:
        """The rows of files, brought together by partition if there are several."""
        names = self._plan.metadata.partition_columns
        values = {tuple(sorted(add.partition_values.items())) for add in touched}
        return _rebalanced(rows, names) if len(values) > 1 else rows

    def _spread(self, rows: DataFrame, reach: Reach) -> DataFrame:
        """New rows, in about as many files as there should be."""
        names = self._plan.metadata.partition_columns
        tasks = self._context.gateway.tasks_of(self._source)
        if tasks <= _FEW * rows.sparkSession.sparkContext.defaultParallelism and (
            not names or reach.is_one_partition
        ):
            # So few files do no harm, and writing them directly moves no row.
            return rows
        return _rebalanced(rows, names)


def _rebalanced(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Shuffle, so that not every task writes a file to each partition."""
    from pyspark.sql import functions as sql

    return rows.hint("rebalance", *(sql.col(quoted(name)) for name in names))


def _deletes_all(merge: Merge) -> bool:
    """Whether every matching row is deleted, however often it matches."""
    clauses = merge.of("matched")
    return [(clause.verb, clause.condition) for clause in clauses] == [("delete", None)]


def _plan(context: DmlContext, merge: Merge) -> Plan:
    """The table as the merge leaves it: with the source's new columns, if that is allowed."""
    if not merge.evolves:
        return evolution.unchanged(context.state)
    incoming = parse_schema(merge.source.schema.json(), source="the source's schema")
    takes_all = any(clause.values is None and clause.verb != "delete" for clause in merge.clauses)
    if not takes_all:
        names = [item.name for item in (*context.state.schema.fields, *incoming.fields)]
        named = {
            name.lower()
            for clause in merge.clauses
            for name in column_names(clause.values or {}, merge.target_alias, names)
        }
        fields = tuple(item for item in incoming.fields if item.name.lower() in named)
        incoming = StructType(fields)
    return evolution.merged(context.state, incoming)


def _source_alias(context: DmlContext, merge: Merge) -> str:
    """The source's name: its own alias, if the merge uses it."""
    own = context.gateway.alias_of(merge.source)
    if own is None:
        return SOURCE
    texts = [merge.condition, *(clause.condition for clause in merge.clauses)]
    for clause in merge.clauses:
        texts += (clause.values or {}).values()
    named = re.compile(rf"(?<![\w.`])`?{re.escape(own)}`?\s*\.", re.IGNORECASE)
    is_used = any(isinstance(text, str) and named.search(text) for text in texts)
    is_column = any(text is not None and not isinstance(text, str) for text in texts)
    return own if is_used or is_column else SOURCE


def _params(merge: Merge) -> dict[str, object]:
    def told(side: str) -> list[dict[str, str]]:
        return [
            {"actionType": clause.verb}
            | ({} if clause.condition is None else {"predicate": str(clause.condition)})
            for clause in merge.clauses
            if clause.side == side
        ]

    return {
        "predicate": [str(merge.condition)],
        "matchedPredicates": told("matched"),
        "notMatchedPredicates": told("not matched"),
        "notMatchedBySourcePredicates": told("not matched by source"),
    }
