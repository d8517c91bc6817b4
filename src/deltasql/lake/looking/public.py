"""The public names of a lake and of a table: what `dir` shows, and docs/api lists.

Everything else on these objects is for deltasql's own modules.
"""

from __future__ import annotations

from typing import Final

LAKE: Final = frozenset(
    (
        "abandon_adoption", "adopt", "audit", "check", "close", "committer",
        "create_or_replace_table", "create_table", "drop_table", "dropped", "expire", "location",
        "maintenance", "mirror", "objects", "pins", "purge", "rebuild", "recover", "rename_table",
        "sessions", "settings", "table", "tables", "transaction", "undrop", "url", "vacuum",
        "write",
    )
)  # fmt: skip

TABLE: Final = frozenset(
    (
        "add_column", "add_columns", "add_constraint", "allow", "append", "appender",
        "change_rows", "changes", "clone", "commit", "count", "delete", "detail", "drop_column",
        "drop_constraint", "drop_feature", "enable_feature", "expire", "head", "history", "kind",
        "location", "merge", "min_max", "mirror", "name", "optimize", "overwrite", "partitions",
        "pin", "plot", "read_only", "release", "rename_column", "reorder_columns", "reorg",
        "restore", "scan", "set_comment", "set_nullable", "set_properties", "size", "snapshot",
        "sources", "table_id", "unset_properties", "update", "vacuum", "version", "widen_type",
    )
)  # fmt: skip
