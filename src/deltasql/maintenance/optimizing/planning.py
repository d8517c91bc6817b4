"""Which files optimize combines: stock Delta's rules for OPTIMIZE and REORG.

Files smaller than the target, or with many deleted rows, are packed into bins of one partition,
each of which becomes one file. Along a curve, or in a clustered table, a bin becomes several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from deltasql.errors import ValidationError
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.spec import codec
from deltasql.spec.actions import AddFile
from deltasql.spec.properties import ZCUBE_COLUMNS, ZCUBE_ID

MIB: Final = 1 << 20
DEFAULT_TARGET: Final = 128 * MIB
# From this share of deleted rows on, a file is rewritten, as in stock Delta.
DEAD_SHARE: Final = 0.05
# A bin that is put in order is held in memory: its size is this many times the target.
ORDERED_BIN: Final = 4
LIQUID: Final = "liquid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What optimize was asked for."""

    where: str | None = None
    target_size: int = DEFAULT_TARGET
    zorder_by: tuple[str, ...] = ()
    # The columns of a clustered table, by their logical names.
    cluster_by: tuple[str, ...] = ()
    purge: bool = False
    dead_share: float = DEAD_SHARE

    def __post_init__(self) -> None:
        if self.target_size < 1:
            raise ValidationError(
                f"target_size can't be {self.target_size}", remedy="give a number of bytes above 0"
            )
        if not 0 <= self.dead_share <= 1:
            raise ValidationError(
                f"the share of dead rows can't be {self.dead_share}",
                remedy="give a number from 0 to 1",
            )

    @property
    def order_by(self) -> tuple[str, ...]:
        """The columns that rows are ordered by."""
        return () if self.purge else self.zorder_by or self.cluster_by

    @property
    def settings(self) -> str:
        """What processes that share bins must have in common."""
        return codec.dumps(
            {
                "where": self.where,
                "targetSize": self.target_size,
                "orderBy": list(self.order_by),
                "purge": self.purge,
                "deadShare": self.dead_share,
            }
        ).decode()


@dataclass(slots=True)
class Bin:
    """Files of one partition that are combined."""

    files: list[AddFile] = field(default_factory=list)
    size: int = 0

    def take(self, add: AddFile) -> None:
        """Put a file in."""
        self.files.append(add)
        self.size += add.size


def plan(files: Iterable[AddFile], wish: Wish) -> list[Bin]:
    """The bins of a table's live files."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[AddFile]] = {}
    for add in files:
        partitions.setdefault(tuple(sorted(add.partition_values.items())), []).append(add)
    return [item for found in partitions.values() for item in _bins(found, wish)]


def is_worth_it(files: Sequence[AddFile], wish: Wish) -> bool:
    """Whether combining these files makes a difference."""
    if wish.order_by:
        return any(not _is_clustered(add, wish) for add in files)
    return len(files) > 1 or any(_has_dead_rows(add, wish) for add in files)


def _bins(files: Sequence[AddFile], wish: Wish) -> list[Bin]:
    if wish.order_by:
        chosen, limit = _unordered(files, wish), wish.target_size * ORDERED_BIN
    elif wish.purge:
        chosen, limit = [add for add in files if _has_dead_rows(add, wish)], wish.target_size
    else:
        limit = wish.target_size
        chosen = [add for add in files if add.size < limit or _has_dead_rows(add, wish)]
    bins: list[Bin] = []
    # Small ones first, as in stock Delta; the paths make the order the same for all processes.
    for add in sorted(chosen, key=lambda add: (add.size, add.path)):
        if not bins or bins[-1].size + add.size > limit:
            bins.append(Bin())
        bins[-1].take(add)
    return [item for item in bins if is_worth_it(item.files, wish)]


def _has_dead_rows(add: AddFile, wish: Wish) -> bool:
    vector = add.deletion_vector
    if vector is None or not vector.cardinality:
        return False
    rows = record_count(load_stats(add.stats))
    return wish.purge or not rows or vector.cardinality / rows > wish.dead_share


def _unordered(files: Sequence[AddFile], wish: Wish) -> list[AddFile]:
    """Files that are not in order yet, and in a clustered table cubes that can still grow."""
    if not wish.cluster_by:
        return list(files)
    cubes: dict[str | None, int] = {}
    for add in files:
        if _is_clustered(add, wish):
            cube = (add.tags or {}).get(ZCUBE_ID)
            cubes[cube] = cubes.get(cube, 0) + add.size
    full = {cube for cube, size in cubes.items() if size >= wish.target_size}
    return [
        add
        for add in files
        if not _is_clustered(add, wish) or (add.tags or {}).get(ZCUBE_ID) not in full
    ]


def _is_clustered(add: AddFile, wish: Wish) -> bool:
    """Whether the file belongs to a cube of the table's clustering columns."""
    if not wish.cluster_by or _has_dead_rows(add, wish) or add.clustering_provider != LIQUID:
        return False
    tags = add.tags or {}
    return ZCUBE_ID in tags and tags.get(ZCUBE_COLUMNS) == cube_columns(wish)


def cube_columns(wish: Wish) -> str:
    """The clustering columns as a file's tag spells them."""
    return codec.dumps(list(wish.cluster_by)).decode()
