"""Which files a predicate can do without: by keys in the database, then exactly.

The database drops partitions (`matching_partitions`) and files (`to_ranges` over the keys
that `file_keys` made); what is left is asked once more with full precision (`Pruner`).
"""

from __future__ import annotations

from deltasql.log.pruning import Pruner, is_partition_only, matching_partitions, may_match
from deltasql.log.range_pruning import to_ranges
from deltasql.log.ranges import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Everything,
    MayBeNotNull,
    MayBeNull,
    Nothing,
    Ranges,
    holds,
)
from deltasql.log.stats_columns import (
    MAX,
    StatsColumn,
    dump_stats_columns,
    load_stats_columns,
    stats_columns,
)
from deltasql.log.stats_keys import FileKeys, file_keys

__all__ = [
    "MAX",
    "AllOf",
    "AnyOf",
    "AtLeast",
    "AtMost",
    "Everything",
    "FileKeys",
    "MayBeNotNull",
    "MayBeNull",
    "Nothing",
    "Pruner",
    "Ranges",
    "StatsColumn",
    "dump_stats_columns",
    "file_keys",
    "holds",
    "is_partition_only",
    "load_stats_columns",
    "matching_partitions",
    "may_match",
    "stats_columns",
    "to_ranges",
]
