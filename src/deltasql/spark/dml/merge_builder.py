"""The merge builder: collects delta-spark's clauses until `execute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeAlias, TypeVar

from deltasql.errors import ValidationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Side: TypeAlias = Literal["matched", "not matched", "not matched by source"]
Verb: TypeAlias = Literal["update", "delete", "insert"]
# What `execute` returns: a version with metrics, or in a transaction the metrics alone.
Done = TypeVar("Done")
TARGET = "target"
SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Clause:
    """What happens to the rows of one side; `values` is None for all columns of the source."""

    side: Side
    verb: Verb
    condition: str | Column | None = None
    values: Mapping[str, str | Column] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge as requested."""

    source: DataFrame
    condition: str | Column
    target_alias: str = TARGET
    clauses: tuple[Clause, ...] = ()
    evolves: bool = False

    def of(self, side: Side) -> tuple[Clause, ...]:
        """The clauses for one side, in order."""
        return tuple(clause for clause in self.clauses if clause.side == side)


class MergeBuilder(Generic[Done]):
    """`table.merge(source, condition)`: add clauses, then `execute()`.

    For each row, the first clause whose condition holds applies. The target is called `target` and
    the source `source`, unless `alias` gave them other names.
    """

    def __init__(self, merge: Merge, run: Callable[[Merge, int], Done]) -> None:
        self._merge = merge
        self._run = run

    def whenMatchedUpdate(  # noqa: N802 - delta-spark's name, as those below
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002
    ) -> Self:
        """Set columns of matching rows."""
        return self._with(Clause("matched", "update", condition, _given(set, "set")))

    def whenMatchedUpdateAll(self, condition: str | Column | None = None) -> Self:  # noqa: N802
        """Set all columns of matching rows to the source's."""
        return self._with(Clause("matched", "update", condition))

    def whenMatchedDelete(self, condition: str | Column | None = None) -> Self:  # noqa: N802
        """Delete matching rows."""
        return self._with(Clause("matched", "delete", condition))

    def whenNotMatchedInsert(  # noqa: N802
        self,
        condition: str | Column | None = None,
        values: Mapping[str, str | Column] | None = None,
    ) -> Self:
        """Insert rows of the source that match nothing."""
        return self._with(Clause("not matched", "insert", condition, _given(values, "values")))

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> Self:  # noqa: N802
        """Insert rows of the source that match nothing, with all their columns."""
        return self._with(Clause("not matched", "insert", condition))

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002
    ) -> Self:
        """Set columns of rows of the table that no source row matches."""
        values = _given(set, "set")
        return self._with(Clause("not matched by source", "update", condition, values))

    def whenNotMatchedBySourceDelete(  # noqa: N802
        self, condition: str | Column | None = None
    ) -> Self:
        """Delete rows of the table that no source row matches."""
        return self._with(Clause("not matched by source", "delete", condition))

    def withSchemaEvolution(self) -> Self:  # noqa: N802
        """Let the table gain the columns that only the source has."""
        return type(self)(replace(self._merge, evolves=True), self._run)

    # The same under Python's names.
    when_matched_update = whenMatchedUpdate
    when_matched_update_all = whenMatchedUpdateAll
    when_matched_delete = whenMatchedDelete
    when_not_matched_insert = whenNotMatchedInsert
    when_not_matched_insert_all = whenNotMatchedInsertAll
    when_not_matched_by_source_update = whenNotMatchedBySourceUpdate
    when_not_matched_by_source_delete = whenNotMatchedBySourceDelete
    with_schema_evolution = withSchemaEvolution

    def execute(self, retries: int = 0) -> Done:
        """Merge; returns the version with metrics, or the metrics inside a transaction.

        A conflict with another writer runs the merge again, on the newer version, up to `retries`
        times.
        """
        if not self._merge.clauses:
            raise ValidationError(
                "the merge does nothing",
                cause="it has no clause",
                remedy="add one, such as whenMatchedUpdateAll()",
            )
        _check_order(self._merge)
        return self._run(self._merge, retries)

    def _with(self, clause: Clause) -> Self:
        merge = replace(self._merge, clauses=(*self._merge.clauses, clause))
        return type(self)(merge, self._run)


def _given(values: Mapping[str, str | Column] | None, name: str) -> Mapping[str, str | Column]:
    if not values:
        raise ValidationError(f"the clause sets nothing: {name} is empty", remedy=f"give {name}=")
    return values


def _check_order(merge: Merge) -> None:
    """A clause without a condition takes every row, and leaves nothing to later ones."""
    sides: tuple[Side, ...] = ("matched", "not matched", "not matched by source")
    for side in sides:
        for clause in merge.of(side)[:-1]:
            if clause.condition is None:
                raise ValidationError(
                    f"a clause for rows {side} can never apply",
                    cause="one without a condition comes before it",
                    remedy="put the clause without a condition last",
                )
