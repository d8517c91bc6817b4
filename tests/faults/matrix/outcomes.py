"""What a verb told its caller, held against what a fresh client finds in the lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import deltasql
from deltasql.errors import CommitStateUnknownError, DeltaSqlError, MirrorError

# By table, the ids of its rows and whether foreign writers are kept out; None for no table.
State = Mapping[str, "tuple[list[int], bool] | None"]


class Told(Enum):
    """What the caller learned."""

    DONE = "it is done"
    REFUSED = "it is not done"
    UNKNOWN = "it may be done"


@dataclass(frozen=True)
class Answer:
    """What the caller learned, and how."""

    told: Told
    error: Exception | None = None

    @classmethod
    def of(cls, call: Callable[[], Any]) -> Answer:
        """The answer of a verb; an error that is not ours says nothing, so it may not come."""
        try:
            call()
        except CommitStateUnknownError as error:
            return cls(Told.UNKNOWN, error)
        except MirrorError as error:
            # Committed, it says, and what is missing in the mirror.
            return cls(Told.DONE if "is released at version" in str(error) else Told.REFUSED, error)
        except DeltaSqlError as error:
            return cls(Told.REFUSED, error)
        return cls(Told.DONE)


def state_of(lake: deltasql.Lake, names: list[str]) -> State:
    """The tables as a client sees them that knows nothing of what happened."""
    known = {table.name: table for table in lake.tables()}
    return {name: _read(known[name]) if name in known else None for name in names}


def _read(table: deltasql.Table) -> tuple[list[int], bool]:
    # Every version: a file that was deleted may be needed by an old one only.
    versions = range(table.version + 1)
    rows = [table.snapshot(version).scan(columns=["id"]).to_arrow() for version in versions]
    found = sorted(rows[-1].column("id").to_pylist())
    if table.snapshot().state.has_change_feed:
        assert sorted(told_by_feed(table).elements()) == found, "the feed tells of other rows"
    features = table.snapshot().protocol.writer_features or ()
    return found, "deltasql" in features


def told_by_feed(table: deltasql.Table, *columns: str) -> Counter[Any]:
    """The rows that all changes together come to: their ids, or some columns."""
    left: Counter[Any] = Counter()
    for row in table.change_rows().read_all().to_pylist():
        key = tuple(row[name] for name in columns) if columns else row["id"]
        left[key] += 1 if row["_change_type"] in ("insert", "update_postimage") else -1
    return left


def check(answer: Answer, found: State, *, before: State, after: State) -> None:
    """All of it or nothing, and the caller was told no lie."""
    match answer.told:
        case Told.DONE:
            assert found == after, "told done, and it is not"
        case Told.REFUSED:
            assert found == before, f"told refused, and it was done: {answer.error}"
        case Told.UNKNOWN:
            assert found in (before, after), "only a part of it was done"
