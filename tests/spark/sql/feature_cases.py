"""The same statements on tables with each feature, and with all of them at once."""

from __future__ import annotations

from tests.sizes import each_value
from tests.spark.sql.cases import Case

_PROPERTIES = {
    "vectors": ("delta.enableDeletionVectors' = 'true",),
    "mapping": ("delta.columnMapping.mode' = 'name",),
    "tracking": ("delta.enableRowTracking' = 'true",),
    "feed": ("delta.enableChangeDataFeed' = 'true",),
}
FEATURES = {**_PROPERTIES, "all": tuple(item[0] for item in _PROPERTIES.values())}
_ROWS = "SELECT id, concat('v', id) FROM range(0, 6, 1, 1)"
_STATEMENTS = {
    "insert": "INSERT INTO {t} VALUES (9, 'n')",
    "delete": "DELETE FROM {t} WHERE id = 3",
    "delete whole files": "DELETE FROM {t} WHERE id >= 0",
    "update": "UPDATE {t} SET v = 'u' WHERE id IN (1, 2)",
    "merge": (
        "MERGE INTO {t} t USING (SELECT id, 'm' AS v FROM range(2, 8, 1, 1)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'gone'"
    ),
    "merge of inserts": (
        "MERGE INTO {t} t USING (SELECT id, 'm' AS v FROM range(4, 8, 1, 1)) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "overwrite": "INSERT OVERWRITE {t} VALUES (9, 'n')",
    "replace where": "INSERT INTO {t} REPLACE WHERE id = 1 VALUES (1, 'w')",
    "restore": "RESTORE TABLE {t} TO VERSION AS OF 1",
}


def _check(feature: str, statement: str) -> str:
    """Rows as readers see them: with their changes, or with their ids."""
    if feature in ("feed", "all") and statement != "restore":
        return "SELECT id, v, _change_type, _commit_version FROM table_changes('{t}', 0)"
    if feature == "tracking":
        return "SELECT id, v, _metadata.row_id, _metadata.row_commit_version FROM {t}"
    return "SELECT * FROM {t}"


def _case(feature: str, statement: str) -> Case:
    properties = ", ".join(f"'{item}'" for item in FEATURES[feature])
    # Delta refuses AS SELECT with column mapping and a change feed.
    made = f"CREATE TABLE {{t}} (id BIGINT, v STRING) USING delta TBLPROPERTIES ({properties})"
    before = ("DELETE FROM {t} WHERE id = 4",) if statement == "restore" else ()
    return Case(
        f"{feature}: {statement}",
        _STATEMENTS[statement],
        setup=(made, f"INSERT INTO {{t}} {_ROWS}", *before),
        check=_check(feature, statement),
        # Its own rows hold sizes of files.
        is_compared=statement != "restore",
    )


FEATURE_CASES = tuple(
    _case(feature, statement)
    for statement, feature in each_value(tuple(_STATEMENTS), tuple(reversed(FEATURES)))
)
