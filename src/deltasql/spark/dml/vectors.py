"""Deletes rows by marking them: new deletion vectors, merged with existing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltasql.data.writing.vector_files import loosened
from deltasql.data.writing.vectors import VectorFile
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.spark.dml.operation import FILE, ROW, DmlContext
from deltasql.spark.native.gateway import VECTOR_COLUMNS
from deltasql.spark.native.paths import place_of
from deltasql.spec.actions import AddFile
from deltasql.spec.deletion_vectors import InFile, locate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Marked:
    """Files that lost rows and how many, their replacements, and what was written."""

    gone: Sequence[AddFile] = ()
    added: Sequence[AddFile] = ()
    files: Sequence[VectorFile] = ()
    rows: int = 0


def can_mark(candidates: Iterable[AddFile]) -> bool:
    """Whether each file records its number of rows, as one with a deletion vector must."""
    return all(record_count(load_stats(add.stats)) is not None for add in candidates)


def mark(context: DmlContext, candidates: Sequence[AddFile], rows: DataFrame) -> Marked:
    """Delete rows of the candidates, given by file and position (`DmlContext.placed_rows`)."""
    if not candidates:
        return Marked()
    table = context.gateway.table(context.location, context.state.metadata, context.state.protocol)
    known = context.by_place(candidates)
    found = context.gateway.vectors(table, _with_old_vectors(context, candidates, rows))
    gone: list[AddFile] = []
    added: list[AddFile] = []
    files: set[str] = set()
    lost = 0
    for item in found:
        add = known[place_of(item.file_path)]
        vector = item.vector
        place = locate(vector)
        if isinstance(place, InFile):
            files.add(place.path)
        gone.append(add)
        old = add.deletion_vector
        lost += vector.cardinality - (0 if old is None else old.cardinality)
        # A file without remaining rows is removed.
        if vector.cardinality != record_count(load_stats(add.stats)):
            added.append(
                replace(add, deletion_vector=vector, stats=loosened(add.stats), data_change=True)
            )
    return Marked(gone, added, [VectorFile(path) for path in sorted(files)], lost)


def _with_old_vectors(
    context: DmlContext, candidates: Iterable[AddFile], rows: DataFrame
) -> DataFrame:
    from pyspark.sql import functions as sql

    file, vector, row = VECTOR_COLUMNS
    found = rows.select(sql.col(FILE).alias(file), sql.col(ROW).alias(row))
    old = {
        place_of(add.path, context.location): context.gateway.vector_text(add.deletion_vector)
        for add in candidates
        if add.deletion_vector is not None
    }
    if not old:
        return found.select(file, sql.lit(None).cast("string").alias(vector), row)
    return found.join(_by_path(found, old, file, vector), file, "left").select(file, vector, row)


def _by_path(rows: DataFrame, old: Mapping[str, str], file: str, vector: str) -> DataFrame:
    # Only Spark knows its own spelling of the paths.
    paths = [item[0] for item in rows.select(file).distinct().collect()]
    pairs = [(path, old[place_of(path)]) for path in paths if place_of(path) in old]
    return rows.sparkSession.createDataFrame(pairs, f"{file} string, {vector} string")
