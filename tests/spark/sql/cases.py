"""Statements that must come to the same on a lake as on stock Delta.

A case has a setup, a statement whose own outcome is compared, and a check that is run after it.
`SAME` compares nothing of the statement but that it fails or does not: its rows hold paths, times
or ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALL = "SELECT * FROM {t}"
TWO = (
    "CREATE TABLE {t} (id BIGINT, v STRING) USING delta",
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
)
PARTED = (
    "CREATE TABLE {t} (id BIGINT, v STRING, d DATE) USING delta PARTITIONED BY (d)",
    "INSERT INTO {t} VALUES (1, 'a', DATE'2026-01-01'), (2, 'b', DATE'2026-01-02'), (3, 'c', NULL)",
)
VECTORS = (
    (
        "CREATE TABLE {t} (id BIGINT, v STRING) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
    ),
    "INSERT INTO {t} SELECT id, concat('v', id) FROM range(0, 10, 1, 1)",
)
FED = (
    (
        "CREATE TABLE {t} (id BIGINT, v STRING) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed'='true')"
    ),
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
)


@dataclass(frozen=True)
class Case:
    name: str
    statement: str
    setup: tuple[str, ...] = TWO
    check: str = ALL
    is_compared: bool = True
    confs: dict[str, str] = field(default_factory=dict)


def same(name: str, statement: str, **more: object) -> Case:
    """A case whose own rows hold what differs: paths, times, ids."""
    return Case(name, statement, is_compared=False, **more)  # type: ignore[arg-type]


CHANGES = "SELECT id, v, _change_type, _commit_version FROM table_changes('{t}', 0)"
MERGE = (
    "MERGE INTO {t} t USING (SELECT 2 AS id, 'm' AS v UNION ALL SELECT 3, 'n') s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
)
HISTORY = "SELECT version, operation, operationParameters, readVersion FROM (DESCRIBE HISTORY {t})"

CASES = (
    # --- tables -------------------------------------------------------------------------
    Case("create", "CREATE TABLE {t} (id INT NOT NULL, s STRUCT<a: INT>) USING delta", setup=()),
    Case("create if not exists", "CREATE TABLE IF NOT EXISTS {t} (x INT) USING delta"),
    Case("create existing", "CREATE TABLE {t} (x INT) USING delta"),
    Case(
        "create as select",
        "CREATE TABLE {t} USING delta PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(4)",
        setup=(),
    ),
    Case("create or replace as select", "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 9 AS x"),
    Case("create or replace", "CREATE OR REPLACE TABLE {t} (y STRING) USING delta"),
    Case("replace missing", "REPLACE TABLE {t} (y STRING) USING delta", setup=(), check="SELECT 1"),
    Case("create like", "CREATE TABLE {u} LIKE {t} USING delta", check="SELECT * FROM {u}"),
    Case("drop", "DROP TABLE {t}", check=ALL),
    Case("drop missing", "DROP TABLE {t}", setup=(), check="SELECT 1"),
    Case("drop if exists", "DROP TABLE IF EXISTS {t}", setup=(), check="SELECT 1"),
    Case(
        "drop and create again",
        "CREATE TABLE {t} (z INT) USING delta",
        setup=(*TWO, "DROP TABLE {t}"),
    ),
    Case("select missing", ALL, setup=(), check="SELECT 1"),
    Case("describe", "DESCRIBE TABLE {t}"),
    Case("show columns", "SHOW COLUMNS IN {t}"),
    # --- rows ---------------------------------------------------------------------------
    Case("insert", "INSERT INTO {t} VALUES (3, 'c')"),
    Case("insert by name", "INSERT INTO {t} BY NAME SELECT 'n' AS v, 5 AS id"),
    Case("insert columns", "INSERT INTO {t} (id) VALUES (7)"),
    Case("insert of a wrong type", "INSERT INTO {t} VALUES ('x', 'c')"),
    Case("insert of too many columns", "INSERT INTO {t} VALUES (1, 'c', 3)"),
    Case("overwrite", "INSERT OVERWRITE {t} VALUES (3, 'c')"),
    Case(
        "overwrite a partition",
        "INSERT OVERWRITE {t} PARTITION (d='2026-01-02') SELECT 9, 'o'",
        setup=PARTED,
    ),
    Case(
        "overwrite partitions dynamically",
        "INSERT OVERWRITE {t} VALUES (9, 'o', DATE'2026-01-02')",
        setup=PARTED,
        confs={"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    ),
    Case(
        "replace where",
        "INSERT INTO {t} REPLACE WHERE d = '2026-01-01' VALUES (8, 'w', DATE'2026-01-01')",
        setup=PARTED,
    ),
    Case(
        "replace where of other rows",
        "INSERT INTO {t} REPLACE WHERE d = '2026-01-01' VALUES (8, 'w', DATE'2026-01-05')",
        setup=PARTED,
    ),
    Case("delete", "DELETE FROM {t} WHERE id = 1"),
    Case("delete a partition", "DELETE FROM {t} WHERE d = '2026-01-01'", setup=PARTED),
    Case("delete of a null partition", "DELETE FROM {t} WHERE d IS NULL", setup=PARTED),
    Case("delete by a subquery", "DELETE FROM {t} WHERE id IN (SELECT 2)"),
    Case("delete all", "DELETE FROM {t}"),
    Case("delete with vectors", "DELETE FROM {t} WHERE id % 3 = 0", setup=VECTORS),
    Case(
        "delete twice with vectors",
        "DELETE FROM {t} WHERE id = 4",
        setup=(*VECTORS, "DELETE FROM {t} WHERE id = 5"),
    ),
    Case("update", "UPDATE {t} SET v = concat(v, '!') WHERE id > 1"),
    Case("update with vectors", "UPDATE {t} SET v = 'u' WHERE id IN (1, 2)", setup=VECTORS),
    Case("merge", MERGE),
    Case("merge with vectors", MERGE, setup=VECTORS),
    Case("merge by source", MERGE + "WHEN NOT MATCHED BY SOURCE THEN DELETE"),
    Case(
        "merge with two matches",
        "MERGE INTO {t} t USING (SELECT 1 AS id UNION ALL SELECT 1) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'x'",
    ),
    Case("truncate", "TRUNCATE TABLE {t}"),
    # --- reads --------------------------------------------------------------------------
    Case("filter on a partition", "SELECT * FROM {t} WHERE d = '2026-01-02'", setup=PARTED),
    Case("filter on a function of a partition", "SELECT * FROM {t} WHERE day(d) = 2", setup=PARTED),
    Case("filter on a null partition", "SELECT * FROM {t} WHERE d IS NULL", setup=PARTED),
    Case("aggregate from metadata", "SELECT count(*), min(id), max(id) FROM {t}", setup=PARTED),
    Case("limit", "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 1)", setup=PARTED),
    Case("join", "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id WHERE b.v = 'a'"),
    Case("version as of", "SELECT * FROM {t} VERSION AS OF 1", setup=(*TWO, "DELETE FROM {t}")),
    Case("version as of none", "SELECT * FROM {t} VERSION AS OF 9"),
    Case("timestamp before all", "SELECT * FROM {t} TIMESTAMP AS OF '2001-01-01'"),
    Case("timestamp after all", "SELECT * FROM {t} TIMESTAMP AS OF '2101-01-01'"),
    Case("history", HISTORY, setup=(*TWO, "UPDATE {t} SET v = 'x'")),
    Case(
        "changes", CHANGES, setup=(*FED, "UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t}")
    ),
    Case("changes without a feed", CHANGES),
    # --- upkeep -------------------------------------------------------------------------
    same("optimize", "OPTIMIZE {t}", setup=(*TWO, "INSERT INTO {t} VALUES (3, 'c')")),
    same("optimize a partition", "OPTIMIZE {t} WHERE d = '2026-01-01'", setup=PARTED),
    same("zorder", "OPTIMIZE {t} ZORDER BY (id)", setup=(*TWO, "INSERT INTO {t} VALUES (3, 'c')")),
    same(
        "purge vectors",
        "REORG TABLE {t} APPLY (PURGE)",
        setup=(*VECTORS, "DELETE FROM {t} WHERE id < 3"),
    ),
    same(
        "restore",
        "RESTORE TABLE {t} TO VERSION AS OF 1",
        setup=(*TWO, "DELETE FROM {t} WHERE id = 1"),
    ),
    same("detail", "DESCRIBE DETAIL {t}"),
    same("shallow clone", "CREATE TABLE {u} SHALLOW CLONE {t}", check="SELECT * FROM {u}"),
    # --- columns and properties -----------------------------------------------------------
    Case("add column", "ALTER TABLE {t} ADD COLUMNS (w INT COMMENT 'c' FIRST)"),
    Case("widen nothing", "ALTER TABLE {t} ALTER COLUMN v TYPE INT"),
    Case("rename column without mapping", "ALTER TABLE {t} RENAME COLUMN v TO w"),
    Case(
        "rename column",
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        setup=(*TWO, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')"),
    ),
    Case(
        "drop column",
        "ALTER TABLE {t} DROP COLUMN v",
        setup=(*TWO, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')"),
    ),
    Case(
        "constraint",
        "INSERT INTO {t} VALUES (-1, 'x')",
        setup=(*TWO, "ALTER TABLE {t} ADD CONSTRAINT pos CHECK (id > 0)"),
    ),
    Case("constraint that is broken", "ALTER TABLE {t} ADD CONSTRAINT big CHECK (id > 1)"),
    Case(
        "not null",
        "INSERT INTO {t} VALUES (NULL)",
        setup=("CREATE TABLE {t} (id INT NOT NULL) USING delta",),
    ),
    Case(
        "property",
        "ALTER TABLE {t} SET TBLPROPERTIES ('a.b' = 'c')",
        check="SHOW TBLPROPERTIES {t} ('a.b')",
    ),
    Case("unknown delta property", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.nothing' = 'c')"),
    Case("comment", "COMMENT ON TABLE {t} IS 'said'"),
    Case(
        "append only",
        "DELETE FROM {t} WHERE id = 1",
        setup=(*TWO, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly'='true')"),
    ),
    Case(
        "generated and default",
        "INSERT INTO {t} (x) VALUES (1), (DEFAULT)",
        setup=(
            (
                "CREATE TABLE {t} (x INT DEFAULT 7, g INT GENERATED ALWAYS AS (x + 1)) USING delta "
                "TBLPROPERTIES ('delta.feature.allowColumnDefaults'='supported')"
            ),
        ),
    ),
    Case(
        "identity",
        "INSERT INTO {t} (x) SELECT 3",
        setup=(
            "CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY, x INT) USING delta",
            "INSERT INTO {t} (x) SELECT 1",
        ),
    ),
    Case(
        "row tracking",
        "SELECT id, _metadata.row_id, _metadata.row_commit_version FROM {t}",
        setup=(
            (
                "CREATE TABLE {t} (id BIGINT) USING delta "
                "TBLPROPERTIES ('delta.enableRowTracking'='true')"
            ),
            "INSERT INTO {t} SELECT id FROM range(0, 3, 1, 1)",
            "INSERT INTO {t} VALUES (9)",
            "UPDATE {t} SET id = 5 WHERE id = 1",
        ),
    ),
    same(
        "clustered",
        "OPTIMIZE {t}",
        setup=(
            "CREATE TABLE {t} (id BIGINT, z INT) USING delta CLUSTER BY (id)",
            "INSERT INTO {t} SELECT id, 1 FROM range(5)",
        ),
    ),
)
