"""When a checkpoint pays: the rule for tables that don't set `delta.checkpointInterval`.

A reader starts at the newest checkpoint and replays the commit files after it; writing a checkpoint
writes the whole table again. So one is due when the commit files since the last one hold enough
actions: what is written into checkpoints stays below a fixed multiple of what was committed,
however long the history. Actions stand for bytes, since both hold the same ones. Each commit file
also costs a request of its own, so there are never very many of them.

A V2 checkpoint names the sidecars of the last one again and writes only what came since, so it is
due far sooner, unless removed files have spoilt those sidecars.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

# With up to this many actions a checkpoint costs next to nothing: one every interval.
SMALL: Final = 100
# The fixed cost of a checkpoint, in actions: its schema and its footer.
FIXED: Final = 200
# Never more commit files than this after a checkpoint.
MOST_COMMITS: Final = 1000
# Each checkpoint, even one that keeps all sidecars, first proves the rows of all live files, some
# 10 µs each. So many of them count as one action that is written: 3 ms for each action committed.
PROVEN: Final = 40


@dataclass(frozen=True, slots=True)
class Growth:
    """What a log has grown by since a checkpoint fell due at `due_version`, or since it began:
    `actions` in the commit files after it.
    """

    due_version: int
    actions: int

    @staticmethod
    def unknown(version: int, interval: int, files: int) -> Growth:
        """For a log that continues with `version` and of which nothing was recorded: a checkpoint
        is due at the next multiple of the interval.
        """
        if version <= 0:
            return Growth(0, 0)
        return Growth((version - 1) // interval * interval, files)


def grown(growth: Growth, version: int, actions: int) -> Growth:
    """The growth with a version's commit file added, unless it was counted before."""
    if version <= growth.due_version:
        return growth
    return replace(growth, actions=growth.actions + actions)


def is_due(growth: Growth, version: int, *, interval: int, rate: int, table_actions: int) -> bool:
    """Whether a version, already counted in the growth, should have a checkpoint.

    `table_actions` are those that the checkpoint would hold; `rate` of them may be written for each
    action that was committed. `interval` is the least distance between two checkpoints.
    """
    commits = version - growth.due_version
    if commits < interval:
        return False
    if table_actions <= SMALL or commits >= MOST_COMMITS:
        return True
    return table_actions + FIXED <= growth.actions * rate


def is_tail_due(
    growth: Growth, version: int, *, interval: int, rate: int, repeated: int, table_actions: int
) -> bool:
    """Whether a version should have a V2 checkpoint, if the last one's sidecars still hold.

    `repeated` are the actions that it writes anew whatever came since, such as tombstones. They and
    its fixed cost may take half of the rate; the other half pays for sidecars that are merged as
    they grow.
    """
    if version - growth.due_version < interval:
        return False
    cost = max(2 * (FIXED + repeated), table_actions // PROVEN)
    return cost <= growth.actions * rate
