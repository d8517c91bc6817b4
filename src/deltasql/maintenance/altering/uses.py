"""What uses a column: constraints, generated columns, the layout. A column in use can't change."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltasql.data.writing.stats import parse_names
from deltasql.errors import ValidationError
from deltasql.log.predicates.predicate import columns, parse
from deltasql.log.state import TableState
from deltasql.maintenance.altering.columns import Path, fields_to
from deltasql.spec.features import all_fields
from deltasql.spec.properties import (
    CLUSTERING_DOMAIN,
    CONSTRAINT_PREFIX,
    GENERATION_EXPRESSION,
    INVARIANTS,
    STATS_COLUMNS,
)
from deltasql.spec.schema import StructField


@dataclass(frozen=True, slots=True)
class _Use:
    """Something that names columns: these, or those in a text of Spark's SQL."""

    who: str
    text: str
    named: Collection[Path] | None = None

    def needs(self, path: Path) -> bool:
        """Whether it may use the column of a path, or something inside it."""
        wanted = _lower(path)
        try:
            named = columns(parse(self.text)) if self.named is None else self.named
        except ValidationError:
            # Spark's SQL is more than we parse. Whatever it uses, it names the top-level column.
            first = wanted[0]
            text = self.text.lower()
            return first in text or first.replace("`", "``") in text
        return any(_meet(_lower(found), wanted) for found in named)


def must_be_unused(state: TableState, name: str, doing: str) -> None:
    """Raise if a constraint, a generated column or the choice of stats names the column."""
    way = fields_to(state.schema, name)
    path = tuple(item.name for item in way)
    for use in _uses(state, way[-1]):
        if use.needs(path):
            raise ValidationError(
                f"column {name!r:.80} can't be {doing}",
                cause=f"{use.who} uses it: {use.text:.200}",
                remedy="drop or change that first",
            )


def _uses(state: TableState, column: StructField) -> Iterator[_Use]:
    for key, value in state.properties.items():
        if key.startswith(CONSTRAINT_PREFIX):
            yield _Use(f"the constraint {key.removeprefix(CONSTRAINT_PREFIX)}", value)
        if key == STATS_COLUMNS:
            yield _Use(STATS_COLUMNS, value, parse_names(value))
    for item in all_fields(state.schema):
        if GENERATION_EXPRESSION in item.metadata and item is not column:
            text = str(item.metadata[GENERATION_EXPRESSION])
            yield _Use(f"the generated column {item.name}", text)
        if INVARIANTS in item.metadata:
            yield _Use(f"the invariant of {item.name}", _invariant(item.metadata[INVARIANTS]))


def must_not_shape_the_table(state: TableState, name: str, domains: Mapping[str, str]) -> None:
    """Raise if the table is partitioned or clustered by the column, or by something inside it."""
    way = fields_to(state.schema, name)
    physical = tuple(item.physical_name for item in way)
    by = {part.lower() for part in state.partition_columns}
    clustered = _clustered_by(domains.get(CLUSTERING_DOMAIN))
    partitions = len(way) == 1 and way[0].name.lower() in by
    if partitions or any(_meet(found, physical) for found in clustered):
        raise ValidationError(
            f"column {name!r:.80} can't be dropped",
            cause="the table is partitioned or clustered by it",
            remedy="create a new table without it",
        )


def _clustered_by(text: str | None) -> list[Path]:
    """The physical paths of the clustering columns."""
    found = {} if text is None else json.loads(text)
    return [tuple(path) for path in found.get("clusteringColumns", ())]


def _invariant(value: Any) -> str:
    """The condition of an invariant, which is JSON inside JSON."""
    try:
        return str(json.loads(value)["expression"]["expression"])
    except (ValueError, TypeError, KeyError):
        return str(value)


def _meet(one: Path, other: Path) -> bool:
    """Whether one path leads to the other, or into it."""
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _lower(path: Path) -> Path:
    return tuple(step.lower() for step in path)
