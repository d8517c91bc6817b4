"""What a file's keys must satisfy for the file to be worth reading.

Pure values that each SQL dialect renders in its own words; `holds` defines what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deltasql.log.pruning.stats_keys import FileKeys


@dataclass(frozen=True, slots=True)
class AtLeast:
    """`max_keys[ordinal]` is null or >= key."""

    ordinal: int
    key: float


@dataclass(frozen=True, slots=True)
class AtMost:
    """`min_keys[ordinal]` is null or <= key."""

    ordinal: int
    key: float


@dataclass(frozen=True, slots=True)
class MayBeNull:
    """`null_counts[ordinal]` is null or > 0."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class MayBeNotNull:
    """`null_counts[ordinal]` or num_records is null, or the first is less than the second."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; there are at least two."""

    parts: tuple[Ranges, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; there are at least two."""

    parts: tuple[Ranges, ...]


@dataclass(frozen=True, slots=True)
class Everything:
    """Holds for every file."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Holds for no file."""


Ranges: TypeAlias = (
    AtLeast | AtMost | MayBeNull | MayBeNotNull | AllOf | AnyOf | Everything | Nothing
)
EVERYTHING, NOTHING = Everything(), Nothing()


def holds(ranges: Ranges, keys: FileKeys) -> bool:
    """Whether a file may have a matching row; the SQL of every dialect must agree with this."""
    match ranges:
        case AtLeast(ordinal, key):
            found = _at(keys.max_keys, ordinal)
            return found is None or found >= key
        case AtMost(ordinal, key):
            found = _at(keys.min_keys, ordinal)
            return found is None or found <= key
        case MayBeNull(ordinal):
            nulls = _at(keys.null_counts, ordinal)
            return nulls is None or nulls > 0
        case MayBeNotNull(ordinal):
            nulls, records = _at(keys.null_counts, ordinal), keys.num_records
            return nulls is None or records is None or nulls < records
        case AllOf(parts):
            return all(holds(part, keys) for part in parts)
        case AnyOf(parts):
            return any(holds(part, keys) for part in parts)
    return isinstance(ranges, Everything)


def _at(values: Sequence[Any], ordinal: int) -> Any:
    return values[ordinal] if ordinal < len(values) else None


def all_of(parts: Iterable[Ranges]) -> Ranges:
    """All parts together, in as few as possible."""
    kept = _flat(parts, AllOf)
    if NOTHING in kept:
        return NOTHING
    kept = _tightest([part for part in kept if part != EVERYTHING], sign=1)
    return AllOf(tuple(kept)) if len(kept) > 1 else kept[0] if kept else EVERYTHING


def any_of(parts: Iterable[Ranges]) -> Ranges:
    """Any of the parts, in as few as possible."""
    kept = _flat(parts, AnyOf)
    if EVERYTHING in kept:
        return EVERYTHING
    kept = _tightest([part for part in kept if part != NOTHING], sign=-1)
    return AnyOf(tuple(kept)) if len(kept) > 1 else kept[0] if kept else NOTHING


def _flat(parts: Iterable[Ranges], kind: type[AllOf] | type[AnyOf]) -> list[Ranges]:
    flat: list[Ranges] = []
    for part in parts:
        if isinstance(part, AllOf | AnyOf) and isinstance(part, kind):
            flat.extend(part.parts)
        else:
            flat.append(part)
    return flat


def _tightest(parts: list[Ranges], *, sign: int) -> list[Ranges]:
    """One bound per column and side: the tightest for sign 1, the loosest for -1."""
    kept: dict[Any, Ranges] = {}
    for part in parts:
        match part:
            case AtLeast(ordinal, key):
                slot: Any = (AtLeast, ordinal)
                better = slot in kept and sign * key > sign * kept[slot].key  # type: ignore[union-attr]
            case AtMost(ordinal, key):
                slot = (AtMost, ordinal)
                better = slot in kept and sign * key < sign * kept[slot].key  # type: ignore[union-attr]
            case _:
                slot, better = part, False
        if slot not in kept or better:
            kept[slot] = part
    return list(kept.values())


def size(ranges: Ranges) -> int:
    """How many conditions the SQL will have."""
    if isinstance(ranges, AllOf | AnyOf):
        return sum(size(part) for part in ranges.parts)
    return 1


def bounded(ranges: Ranges, limit: int) -> Ranges:
    """The same or something weaker, of at most `limit` conditions."""
    if size(ranges) <= limit:
        return ranges
    if not isinstance(ranges, AllOf):
        return EVERYTHING
    kept: list[Ranges] = []
    for part in sorted(ranges.parts, key=size):
        limit -= size(part)
        if limit >= 0:
            kept.append(part)
    return all_of(kept)
