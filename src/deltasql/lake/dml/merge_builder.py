"""The merge builder: delta-spark's clauses under Python's names, gathered until `execute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, cast

from deltasql.errors import ValidationError
from deltasql.lake.arguments import checked
from deltasql.lake.dml.literals import assignments

Side: TypeAlias = Literal["matched", "not matched", "not matched by source"]
Verb: TypeAlias = Literal["update", "delete", "insert"]
SIDES: tuple[Side, ...] = ("matched", "not matched", "not matched by source")
SOURCE = "source"
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Clause:
    """What happens to the rows of one side; `values` is None to set all columns of the source."""

    side: Side
    verb: Verb
    condition: str | None = None
    values: Mapping[str, str] | None = None
    # Source columns that a clause for all columns leaves out.
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge as it was asked for."""

    source: Any
    condition: str
    source_alias: str
    target_alias: str
    clauses: tuple[Clause, ...] = ()
    evolves: bool = False

    def of(self, side: Side) -> tuple[Clause, ...]:
        """The clauses for one side, in order."""
        return tuple(clause for clause in self.clauses if clause.side == side)


@checked
class MergeBuilder(Generic[R]):
    """`table.merge(source, on)`: add clauses, then `execute()`.

    The first clause whose condition holds for a row applies to it. In every expression the target
    is called `target` and the source `source`, unless they were given other names.
    """

    def __init__(self, merge: Merge, run: Callable[[Merge], R]) -> None:
        self._merge = merge
        self._run = run

    def when_matched_update(
        self,
        condition: str | Mapping[str, Any] | None = None,
        set: Mapping[str, Any] | str | None = None,  # noqa: A002 - delta-spark's name
        *,
        predicate: str | None = None,
        updates: Mapping[str, Any] | None = None,
    ) -> Self:
        """Set columns of rows that match."""
        return self._with("matched", "update", (condition, set), (predicate, updates))

    def when_matched_update_all(
        self,
        condition: str | None = None,
        *,
        predicate: str | None = None,
        except_cols: list[str] | None = None,
    ) -> Self:
        """Set all columns of rows that match to the source's."""
        return self._with_all("matched", "update", condition or predicate, except_cols)

    def when_matched_delete(
        self, condition: str | None = None, *, predicate: str | None = None
    ) -> Self:
        """Delete rows that match."""
        return self._and(Clause("matched", "delete", _text(condition or predicate)))

    def when_not_matched_insert(
        self,
        condition: str | Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | str | None = None,
        *,
        predicate: str | None = None,
        updates: Mapping[str, Any] | None = None,
    ) -> Self:
        """Insert rows of the source that match nothing."""
        return self._with("not matched", "insert", (condition, values), (predicate, updates))

    def when_not_matched_insert_all(
        self,
        condition: str | None = None,
        *,
        predicate: str | None = None,
        except_cols: list[str] | None = None,
    ) -> Self:
        """Insert rows of the source that match nothing, with all their columns."""
        return self._with_all("not matched", "insert", condition or predicate, except_cols)

    def when_not_matched_by_source_update(
        self,
        condition: str | Mapping[str, Any] | None = None,
        set: Mapping[str, Any] | str | None = None,  # noqa: A002 - delta-spark's name
        *,
        predicate: str | None = None,
        updates: Mapping[str, Any] | None = None,
    ) -> Self:
        """Set columns of table rows that no source row matches."""
        side: Side = "not matched by source"
        return self._with(side, "update", (condition, set), (predicate, updates))

    def when_not_matched_by_source_delete(
        self, condition: str | None = None, *, predicate: str | None = None
    ) -> Self:
        """Delete table rows that no source row matches."""
        return self._and(Clause("not matched by source", "delete", _text(condition or predicate)))

    def with_schema_evolution(self) -> Self:
        """Let columns that only the source has become columns of the table."""
        return type(self)(replace(self._merge, evolves=True), self._run)

    whenMatchedUpdate = when_matched_update  # noqa: N815 - delta-spark's names
    whenMatchedUpdateAll = when_matched_update_all  # noqa: N815
    whenMatchedDelete = when_matched_delete  # noqa: N815
    whenNotMatchedInsert = when_not_matched_insert  # noqa: N815
    whenNotMatchedInsertAll = when_not_matched_insert_all  # noqa: N815
    whenNotMatchedBySourceUpdate = when_not_matched_by_source_update  # noqa: N815
    whenNotMatchedBySourceDelete = when_not_matched_by_source_delete  # noqa: N815
    withSchemaEvolution = with_schema_evolution  # noqa: N815

    def execute(self) -> R:
        """Run the merge; returns the version with its metrics, or in a transaction only metrics."""
        if not self._merge.clauses:
            raise ValidationError(
                "the merge does nothing",
                cause="it has no clause",
                remedy="add one, such as when_matched_update_all()",
            )
        _check_order(self._merge)
        return self._run(self._merge)

    def _with(
        self,
        side: Side,
        verb: Verb,
        given: tuple[str | Mapping[str, Any] | None, Mapping[str, Any] | str | None],
        theirs: tuple[str | None, Mapping[str, Any] | None],
    ) -> Self:
        """Add a clause, from positional arguments or from the names that delta-rs uses."""
        condition, values = given
        if isinstance(condition, Mapping):
            # delta-rs takes the values first.
            condition, values = values, condition
        wanted = cast("Mapping[str, Any]", values or theirs[1])
        return self._and(Clause(side, verb, _text(condition or theirs[0]), assignments(wanted)))

    def _with_all(
        self, side: Side, verb: Verb, condition: str | None, without: list[str] | None
    ) -> Self:
        left_out = frozenset(name.lower() for name in (() if without is None else without))
        return self._and(Clause(side, verb, _text(condition), without=left_out))

    def _and(self, clause: Clause) -> Self:
        merge = replace(self._merge, clauses=(*self._merge.clauses, clause))
        return type(self)(merge, self._run)


def _text(condition: Any) -> str | None:
    if condition is not None and not isinstance(condition, str):
        raise ValidationError(
            f"the condition of a clause must be text, not {type(condition).__name__}",
            remedy="write it as in SQL: source.amount > target.amount",
        )
    return condition


def _check_order(merge: Merge) -> None:
    """Refuse clauses after one without a condition, which leaves them no rows."""
    for side in SIDES:
        for clause in merge.of(side)[:-1]:
            if clause.condition is None:
                raise ValidationError(
                    f"a clause for rows {side} can never apply",
                    cause="one without a condition comes before it",
                    remedy="put the clause without a condition last",
                )


def merge_params(merge: Merge) -> dict[str, object]:
    """What the merge was asked to do, as the history records it."""

    def told(side: str) -> list[dict[str, str]]:
        return [
            {"actionType": clause.verb}
            | ({} if clause.condition is None else {"predicate": clause.condition})
            for clause in merge.clauses
            if clause.side == side
        ]

    return {
        "predicate": [merge.condition],
        "matchedPredicates": told("matched"),
        "notMatchedPredicates": told("not matched"),
        "notMatchedBySourcePredicates": told("not matched by source"),
    }
