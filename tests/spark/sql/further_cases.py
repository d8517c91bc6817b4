"""Further statements: types, columns, conditions, and what is refused."""

from __future__ import annotations

from tests.spark.sql.cases import ALL, FED, HISTORY, MERGE, PARTED, TWO, Case, same

_MAPPED = (
    (
        "CREATE TABLE {t} (id BIGINT, v STRING) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    ),
    "INSERT INTO {t} VALUES (1, 'a')",
)
_NESTED = (
    (
        "CREATE TABLE {t} USING delta AS SELECT 1 AS id, named_struct('a', 1, 'b', 'x') AS s, "
        "array(1, 2) AS list, map('k', 1) AS m"
    ),
)
_EVOLVING = (
    "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 3L AS id, 'n' AS v, 1 AS w) s "
    "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
)

FURTHER_CASES = (
    # --- rows ---------------------------------------------------------------------------
    Case("insert from itself", "INSERT INTO {t} SELECT id + 10, v FROM {t}"),
    Case("overwrite from itself", "INSERT OVERWRITE {t} SELECT id, upper(v) FROM {t}"),
    Case("insert into a partition", "INSERT INTO {t} PARTITION (d = '2026-02-01') VALUES (9, 'p')",
         setup=PARTED),
    Case("insert with a common table expression",
         "WITH x AS (SELECT 5 AS id, 'c' AS v) INSERT INTO {t} SELECT * FROM x"),
    Case("insert nulls", "INSERT INTO {t} VALUES (NULL, NULL)"),
    Case("insert nothing", "INSERT INTO {t} SELECT * FROM {t} WHERE id > 99"),
    Case("insert an unknown column", "INSERT INTO {t} (nothing) VALUES (1)"),
    Case("insert too large a number", "INSERT INTO {t} VALUES (1000)",
         setup=("CREATE TABLE {t} (x TINYINT) USING delta",)),
    Case("insert too long a text", "INSERT INTO {t} VALUES ('abcd')",
         setup=("CREATE TABLE {t} (x VARCHAR(3)) USING delta",)),
    Case("delete where exists",
         "DELETE FROM {t} WHERE EXISTS (SELECT 1 FROM (SELECT 2 AS k) s WHERE s.k = id)"),
    Case("delete nothing", "DELETE FROM {t} WHERE id = 99"),
    Case("delete by an unknown column", "DELETE FROM {t} WHERE nothing = 1"),
    Case("delete of nulls", "DELETE FROM {t} WHERE v IS NULL",
         setup=(*TWO, "INSERT INTO {t} VALUES (3, NULL)")),
    Case("update a partition column", "UPDATE {t} SET d = DATE'2026-03-03' WHERE id = 1",
         setup=PARTED),
    Case("update a field", "UPDATE {t} SET s.a = 5", setup=_NESTED),
    Case("update an unknown column", "UPDATE {t} SET nothing = 1"),
    Case("update with a wrong type", "UPDATE {t} SET id = 'x'"),
    Case("update nothing", "UPDATE {t} SET v = 'x' WHERE id = 99"),
    Case("merge an unknown column",
         "MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nothing = 1"),
    Case("merge with itself",
         "MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v || '!'"),
    Case("merge with schema evolution", _EVOLVING),
    Case("merge into partitions",
         "MERGE INTO {t} t USING (SELECT 1L AS id, DATE'2026-01-01' AS d) s "
         "ON t.id = s.id AND t.d = s.d WHEN MATCHED THEN DELETE", setup=PARTED),
    Case("merge nothing", MERGE.replace("SELECT 2", "SELECT 2 WHERE false UNION ALL SELECT 2")
         .replace("UNION ALL SELECT 3, 'n'", "LIMIT 0")),
    Case("merge twice", MERGE, setup=(*TWO, MERGE)),
    # --- reads --------------------------------------------------------------------------
    Case("nested values", "SELECT s.a, list[1], m['k'] FROM {t} WHERE s.b = 'x'", setup=_NESTED),
    Case("group and order", "SELECT d, count(*) AS n FROM {t} GROUP BY d ORDER BY n", setup=PARTED),
    Case("by a subquery", "SELECT * FROM {t} WHERE id = (SELECT max(id) FROM {t})"),
    Case("set operations", "SELECT id FROM {t} EXCEPT SELECT 1L"),
    Case("a filter on a text", "SELECT * FROM {t} WHERE v LIKE 'b%'"),
    Case("a filter by in", "SELECT * FROM {t} WHERE id IN (2, 7) OR v = 'a'"),
    Case("a filter on two partitions",
         "SELECT id FROM {t} WHERE d > '2026-01-01' OR (d IS NULL AND id = 3)", setup=PARTED),
    Case("a file's own size", "SELECT count(_metadata.file_size) FROM {t}"),
    Case("a window", "SELECT id, row_number() OVER (ORDER BY id DESC) FROM {t}"),
    Case("tables in functions", "SELECT count(*) FROM {t} TABLESAMPLE (100 PERCENT)"),
    # --- columns and properties ---------------------------------------------------------
    Case("comment on a column", "ALTER TABLE {t} ALTER COLUMN v COMMENT 'said'",
         check="DESCRIBE TABLE {t}"),
    Case("move a column", "ALTER TABLE {t} ALTER COLUMN v FIRST"),
    Case("add a column after", "ALTER TABLE {t} ADD COLUMN w INT AFTER id"),
    Case("add a column that is there", "ALTER TABLE {t} ADD COLUMN v INT"),
    Case("add a field", "ALTER TABLE {t} ADD COLUMN s.c INT", setup=_NESTED),
    Case("drop not null", "INSERT INTO {t} VALUES (NULL)",
         setup=("CREATE TABLE {t} (id INT NOT NULL) USING delta",
                "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL")),
    Case("set not null", "ALTER TABLE {t} ALTER COLUMN id SET NOT NULL"),
    Case("drop a constraint", "INSERT INTO {t} VALUES (-1, 'x')",
         setup=(*TWO, "ALTER TABLE {t} ADD CONSTRAINT pos CHECK (id > 0)",
                "ALTER TABLE {t} DROP CONSTRAINT pos")),
    Case("drop a constraint that is not there", "ALTER TABLE {t} DROP CONSTRAINT pos"),
    Case("drop a constraint if it is there", "ALTER TABLE {t} DROP CONSTRAINT IF EXISTS pos"),
    Case("unset a property", "ALTER TABLE {t} UNSET TBLPROPERTIES ('a.b')",
         setup=(*TWO, "ALTER TABLE {t} SET TBLPROPERTIES ('a.b' = 'c')")),
    Case("widen a type", "ALTER TABLE {t} ALTER COLUMN x TYPE BIGINT",
         setup=(("CREATE TABLE {t} (x INT) USING delta "
                "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"),
                "INSERT INTO {t} VALUES (1)")),
    Case("rename and drop mapped columns", "ALTER TABLE {t} DROP COLUMN w",
         setup=(*_MAPPED, "ALTER TABLE {t} RENAME COLUMN v TO w",
                "ALTER TABLE {t} ADD COLUMN v INT")),
    Case("drop a column that is not there", "ALTER TABLE {t} DROP COLUMN nothing", setup=_MAPPED),
    Case("rename to a name that is taken", "ALTER TABLE {t} RENAME COLUMN v TO id", setup=_MAPPED),
    Case("cluster by", "ALTER TABLE {t} CLUSTER BY (id)",
         setup=("CREATE TABLE {t} (id INT) USING delta CLUSTER BY (id)",)),
    Case("cluster a partitioned table", "ALTER TABLE {t} CLUSTER BY (id)", setup=PARTED),
    Case("add a partition", "ALTER TABLE {t} ADD PARTITION (d = '2026-01-01')", setup=PARTED),
    Case("truncate a partition", "TRUNCATE TABLE {t} PARTITION (d = '2026-01-01')", setup=PARTED),
    # --- tables -------------------------------------------------------------------------
    Case("a column twice", "CREATE TABLE {t} (x INT, X INT) USING delta", setup=(),
         check="SELECT 1"),
    Case("partitioned by nothing", "CREATE TABLE {t} (x INT) USING delta PARTITIONED BY (y)",
         setup=(), check="SELECT 1"),
    Case("a broken generated column",
         "CREATE TABLE {t} (x INT, y INT GENERATED ALWAYS AS (rand())) USING delta",
         setup=(), check="SELECT 1"),
    Case("as select with a column twice", "CREATE TABLE {t} USING delta AS SELECT 1 AS a, 2 AS a",
         setup=(), check="SELECT 1"),
    Case("types", "INSERT INTO {t} VALUES (1.5, DATE'2026-01-01', TIMESTAMP'2026-01-01 10:00:00', "
         "X'01', true, 2.5, CAST(3.5 AS FLOAT), TIMESTAMP_NTZ'2026-01-01 10:00:00')",
         setup=(("CREATE TABLE {t} (a DECIMAL(5,2), b DATE, c TIMESTAMP, d BINARY, e BOOLEAN, "
                "f DOUBLE, g FLOAT, h TIMESTAMP_NTZ) USING delta"),)),
    Case("auto compaction", "INSERT INTO {t} VALUES (3, 'c')",
         setup=(("CREATE TABLE {t} (id BIGINT, v STRING) USING delta "
                 "TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')"),
                "INSERT INTO {t} VALUES (1, 'a')", "INSERT INTO {t} VALUES (2, 'b')"),
         check="SELECT version, operation FROM (DESCRIBE HISTORY {t})",
         confs={"spark.databricks.delta.autoCompact.minNumFiles": "3"}),
    same("clone a version", "CREATE TABLE {u} SHALLOW CLONE {t} VERSION AS OF 1",
         setup=(*TWO, "DELETE FROM {t}"), check="SELECT * FROM {u}"),
    Case("replace and read before", "SELECT * FROM {t} VERSION AS OF 1",
         setup=(*TWO, "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 9 AS x"), check=ALL),
    Case("replace a mapped table", "CREATE OR REPLACE TABLE {t} (w INT) USING delta",
         setup=_MAPPED),
    Case("read a mapped table from before it was replaced", "SELECT * FROM {t} VERSION AS OF 1",
         setup=(*_MAPPED, "REPLACE TABLE {t} (w INT) USING delta")),
    Case("as select that fails", "CREATE OR REPLACE TABLE {t} USING delta AS "
         "SELECT CAST(raise_error('no') AS INT) AS x"),
    Case("history of what was created", HISTORY,
         setup=(("CREATE TABLE {t} USING delta COMMENT 'c' TBLPROPERTIES ('a' = 'b') "
                "AS SELECT 1 AS x"), "CREATE OR REPLACE TABLE {t} (y INT) USING delta",
                "INSERT OVERWRITE {t} VALUES (1)", "TRUNCATE TABLE {t}",
                "ALTER TABLE {t} ADD COLUMN z INT")),
    Case("what is told of it", "SELECT format, description, partitionColumns, clusteringColumns, "
         "numFiles FROM (DESCRIBE DETAIL {t})", setup=(*PARTED, "COMMENT ON TABLE {t} IS 'c'")),
    Case("show partitions", "SHOW PARTITIONS {t}", setup=PARTED),
    Case("describe a column", "DESCRIBE TABLE {t} v"),
    Case("insert by name of an unknown column", "INSERT INTO {t} BY NAME SELECT 1 AS id, 2 AS x"),
    Case("overwrite by name", "INSERT OVERWRITE {t} BY NAME SELECT 'n' AS v, 3 AS id"),
    Case("replace where of an unknown column",
         "INSERT INTO {t} REPLACE WHERE nothing = 1 SELECT 1, 'q'"),
    Case("a default value", "INSERT INTO {t} VALUES (3, DEFAULT)"),
    Case("sync an identity", "ALTER TABLE {t} ALTER COLUMN id SYNC IDENTITY",
         setup=("CREATE TABLE {t} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, x INT) USING delta",
                "INSERT INTO {t} VALUES (100, 1)")),
    Case("update an identity", "UPDATE {t} SET id = 3",
         setup=("CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY, x INT) USING delta",)),
    Case("changes of a range that is none", "SELECT id FROM table_changes('{t}', 1, 0)", setup=FED),
    Case("changes from a time after all", "SELECT id FROM table_changes('{t}', '2199-01-01')",
         setup=FED),
)  # fmt: skip
