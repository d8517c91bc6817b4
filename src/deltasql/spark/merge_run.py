"""A merge, run: the files it touches are found by one join, and written anew by another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltasql import writing
from deltasql.data.writer import NewFile
from deltasql.errors import ValidationError
from deltasql.log.predicate import Predicate
from deltasql.spark import evolution
from deltasql.spark.assignments import as_column, column_names
from deltasql.spark.evolution import Plan
from deltasql.spark.merge_pruning import MergePruning
from deltasql.spark.merge_rows import IN_SOURCE, MergeRows
from deltasql.spark.merging import SOURCE, Merge
from deltasql.spark.modes import place_of
from deltasql.spark.scene import FILE, ROW, Scene, reads_of
from deltasql.spark.vectors import Marked, can_mark, mark
from deltasql.spec.actions import AddFile, CdcFile
from deltasql.spec.schema import StructType, parse_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COUNT = "__deltasql_matches"


def run(scene: Scene, merge: Merge) -> writing.Write | None:
    """What the merge commits; None when it changes nothing."""
    return _Run(scene, merge).write()


class _Run:
    """One merge on one snapshot."""

    def __init__(self, scene: Scene, merge: Merge) -> None:
        self._scene = scene
        self._merge = merge
        self._source_alias = _source_alias(scene, merge)
        # Read more than once, a source must say the same each time; cut off from where it
        # came from it can't do otherwise.
        source = merge.source.localCheckpoint(eager=False)
        self._source = source.alias(self._source_alias)
        self._plan = _plan(scene, merge)
        self._rows = MergeRows(scene, self._plan, merge, self._source_alias)

    def write(self) -> writing.Write | None:
        """Find what is touched, write what comes in its place."""
        scene, merge = self._scene, self._merge
        condition = as_column(merge.condition)
        both = scene.rows([]).alias(merge.target_alias).crossJoin(self._source)
        scene.must_be_deterministic(both, condition)
        predicate = self._predicate(condition)
        if not merge.of("matched") and not merge.of("not matched by source"):
            return self._insert_only(condition, predicate)
        candidates = scene.files(predicate)
        marks = scene.marks_rows and can_mark(candidates)
        touched, is_doubled = self._touched(candidates, condition)
        if not touched and not merge.of("not matched"):
            return self._outcome(predicate, (), (), (), ())
        joined = self._rows.joined(
            touched, self._source, condition, inserts=bool(merge.of("not matched"))
        )
        if is_doubled:
            joined = self._rows.once(joined)
        if marks:
            return self._marked(joined, touched, predicate)
        frame = self._rows.result(joined, keeps=True)
        written = scene.write(self._plan, self._spread(frame, touched))
        return self._outcome(predicate, touched, touched, written, written)

    def _marked(
        self, joined: DataFrame, touched: Sequence[AddFile], predicate: Predicate | None
    ) -> writing.Write | None:
        scene = self._scene
        changing = self._rows.changing(joined).select(FILE, ROW)
        found = mark(scene, touched, changing) if touched else Marked()
        try:
            frame = self._rows.result(joined, keeps=False)
            written = scene.write(self._plan, self._spread(frame, touched))
        except BaseException:
            scene.discard(found.files)
            raise
        added = [*found.added, *written]
        return self._outcome(predicate, found.gone, found.gone, added, [*found.files, *written])

    def _insert_only(self, condition: Column, predicate: Predicate | None) -> writing.Write | None:
        scene = self._scene
        candidates = scene.files(predicate)
        target = scene.rows(candidates).alias(self._merge.target_alias)
        absent = self._source.join(target, condition, "left_anti")
        written = scene.write(self._plan, self._spread(self._rows.inserted(absent), ()))
        return self._outcome(predicate, candidates, (), written, written)

    def _outcome(
        self,
        predicate: Predicate | None,
        used: Sequence[AddFile],
        gone: Sequence[AddFile],
        added: Sequence[AddFile | CdcFile],
        files: Sequence[NewFile],
    ) -> writing.Write | None:
        reads = reads_of(predicate, used)
        return self._scene.outcome(
            operation="MERGE",
            params=_params(self._merge),
            reads=reads,
            changes=self._plan.changes,
            gone=gone,
            added=added,
            files=files,
        )

    # --- what is touched ----------------------------------------------------------------

    def _predicate(self, condition: Column) -> Predicate | None:
        merge, scene = self._merge, self._scene
        # A row that the condition does not speak of is one that the source lacks.
        if merge.of("not matched by source"):
            return None
        text = merge.condition
        if not isinstance(text, str):
            target = scene.rows([]).alias(merge.target_alias)
            text = scene.gateway.text_of(target.crossJoin(self._source), condition)
        pruning = MergePruning(
            scene.gateway,
            scene.reader,
            scene.state,
            target=merge.target_alias,
            source=self._source_alias,
        )
        return pruning.predicate(text, self._source)

    def _touched(
        self, candidates: Sequence[AddFile], condition: Column
    ) -> tuple[list[AddFile], bool]:
        """The files with a row that changes, and whether one matches several source rows."""
        from pyspark.sql import functions as sql

        if not candidates:
            return [], False
        found = (
            self._changing(candidates, condition)
            .groupBy(FILE, ROW)
            .agg(sql.count(IN_SOURCE).alias(_COUNT))
            .groupBy(FILE)
            .agg(sql.max(_COUNT))
            .collect()
        )
        is_doubled = any(count > 1 for _, count in found)
        if is_doubled and not _only_deletes(self._merge):
            raise ValidationError(
                "a row of the table matches several rows of the source",
                cause="the merge can't tell which of them to update or delete it by",
                remedy="make the source's keys unique, or narrow the condition",
            )
        places = {place_of(path) for path, _ in found}
        files = self._scene.by_place(candidates)
        return [add for place, add in files.items() if place in places], is_doubled

    def _changing(self, candidates: Sequence[AddFile], condition: Column) -> DataFrame:
        """The rows of the target that may change, once for each row of the source."""
        from pyspark.sql import functions as sql

        merge = self._merge
        if merge.of("not matched by source"):
            joined = self._rows.joined(candidates, self._source, condition, inserts=False)
            return self._rows.changing(joined)
        target = self._scene.placed_rows(candidates).alias(merge.target_alias)
        source = self._source.withColumn(IN_SOURCE, sql.expr("true")).alias(self._source_alias)
        matches = target.join(source, condition, "inner")
        # Where nothing else happens, rows that no clause takes are left alone.
        return matches if merge.of("not matched") else matches.where(_any_clause(merge))

    def _spread(self, frame: DataFrame, touched: Sequence[AddFile]) -> DataFrame:
        """Rows brought together by partition, lest every task writes a file to each."""
        names = self._plan.metadata.partition_columns
        values = {tuple(sorted(add.partition_values.items())) for add in touched}
        has_inserts = bool(self._merge.of("not matched"))
        if not names or (len(values) <= 1 and not has_inserts):
            return frame
        from pyspark.sql import functions as sql

        return frame.hint("rebalance", *(sql.col(f"`{name}`") for name in names))


def _only_deletes(merge: Merge) -> bool:
    """Whether every row that matches is deleted, however often it does."""
    clauses = merge.of("matched")
    return all(clause.verb == "delete" and clause.condition is None for clause in clauses)


def _any_clause(merge: Merge) -> Column:
    from pyspark.sql import functions as sql

    found = sql.expr("false")
    for clause in merge.of("matched"):
        if clause.condition is None:
            return sql.expr("true")
        found = found | sql.coalesce(as_column(clause.condition), sql.expr("false"))
    return found


def _plan(scene: Scene, merge: Merge) -> Plan:
    """The table as the merge leaves it: with the source's new columns, if it may grow."""
    if not merge.evolves:
        return evolution.unchanged(scene.state)
    incoming = parse_schema(merge.source.schema.json(), source="the source's schema")
    takes_all = any(clause.values is None and clause.verb != "delete" for clause in merge.clauses)
    if not takes_all:
        named = {
            name.lower()
            for clause in merge.clauses
            for name in column_names(clause.values or {}, (merge.target_alias,))
        }
        fields = tuple(item for item in incoming.fields if item.name.lower() in named)
        incoming = StructType(fields)
    return evolution.merged(scene.state, incoming)


def _source_alias(scene: Scene, merge: Merge) -> str:
    """The name that the source goes by: its own, where the merge uses it."""
    own = scene.gateway.alias_of(merge.source)
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
