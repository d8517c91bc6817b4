"""Spark SQL on a lake beside stock Delta Spark: `python -m bench.spark_sql --help`.

The same statements on both sides, tables by their names, one run and one warm JVM. Ours is on
PostgreSQL. Tables for planning are logs without data files, and have no mirror; whatever is written
is mirrored, too.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench import spark, spark_dml, spark_lab
from bench.lines.opening import tidy
from bench.report import Row
from bench.spark import SELECTIVE, plan
from bench.spark_lab import SparkLab, faster

TITLE = "Spark SQL on a lake beside stock Delta Spark"
# Catalogs: of tables that are opened and read, and of those that are written.
READ, WRITTEN = "plans", "lake"
_LOGS = {"open": "many", "selective": "huge"}
_CHANGES = ("merge", "merge-verb", "update", "delete")


def planned(lab: SparkLab) -> Any:
    """Tables without a mirror."""
    return lab.database("spark", {"mirror.mode": "off"}, READ)


def written(lab: SparkLab) -> Any:
    """Tables with their mirror."""
    return lab.database("dml", catalog=WRITTEN)


def prepare(lab: SparkLab) -> None:
    """Make the tables that the lines need, unless they are there."""
    sizes = {
        "many": (lab.scaled(100_000), 1_000, 0),
        "huge": (lab.scaled(1_000_000), 5_000, 0),
    }
    read = {"open", "selective", "scan"}.intersection(lab.wanted)
    if read:
        planned(lab)
    for line in read - {"scan"}:
        name = _LOGS[line]
        lab.once(name, partial(spark.make_log, lab, name, *sizes[name]))
    if "scan" in read:
        lab.once("rows", partial(spark.make_rows, lab))
    if read:
        tidy(lab.server.url("spark"))
    if set(lab.wanted).difference(read):
        written(lab)
    if set(_CHANGES).intersection(lab.wanted):
        spark_dml.prepare(lab)


def stock(lab: SparkLab, name: str) -> str:
    """A table of stock Delta's by its name in the session's own catalog."""
    found = f"spark_catalog.default.{name}"
    lab.spark.sql(f"CREATE TABLE IF NOT EXISTS {found} USING delta LOCATION '{lab.path(name)}'")
    return found


def query(lab: SparkLab, text: str, *, cold: bool = False) -> Callable[[], int]:
    """Open and plan a query as far as its tasks; cold with no log in Delta's cache."""

    def work() -> int:
        if cold:
            lab.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return plan(lab.spark.sql(text))

    return work


def statement(lab: SparkLab, text: str) -> Callable[[], Any]:
    return lambda: lab.spark.sql(text).collect()


def small(lab: SparkLab) -> Iterator[Row]:
    name = f"s{uuid.uuid4().hex}"
    columns = "(id BIGINT, n STRING) USING delta"
    mine, theirs = f"{WRITTEN}.bench.{name}", f"spark_catalog.default.{name}"
    lab.spark.sql(f"CREATE TABLE {mine} {columns}")
    lab.spark.sql(f"CREATE TABLE {theirs} {columns} LOCATION '{lab.path(name)}'")
    rows = "VALUES (1, 'x'), (2, 'y'), (3, 'z')"
    yield faster(
        "small",
        "INSERT of 3 rows",
        statement(lab, f"INSERT INTO {mine} {rows}"),
        statement(lab, f"INSERT INTO {theirs} {rows}"),
        bar=0.65,
        repeats=20,
        note="one table; the mirror is written, too",
    )


def selective(lab: SparkLab) -> Iterator[Row]:
    theirs = stock(lab, "huge")
    text = f"SELECT * FROM {{}} WHERE {SELECTIVE}"
    for kind, bar in (("cold", 0.1), ("warm", None)):
        yield faster(
            f"selective-{kind}",
            f"plan a selective SELECT on {lab.scaled(1_000_000):,} files, {kind}",
            query(lab, text.format(f"{READ}.bench.huge"), cold=kind == "cold"),
            query(lab, text.format(theirs), cold=kind == "cold"),
            bar=bar,
            repeats=2 if kind == "cold" else 5,
            note="one partition of 28 and a range of ids, by Spark's filters alone; cold: stock "
            "Delta from a checkpoint, both caches of logs emptied",
        )


def open_many(lab: SparkLab) -> Iterator[Row]:
    theirs = stock(lab, "many")
    for kind, bar in (("cold", 0.5), ("warm", 0.2)):
        yield faster(
            f"open-{kind}",
            f"open and plan {lab.scaled(100_000):,} files, {kind}",
            query(lab, f"SELECT * FROM {READ}.bench.many", cold=kind == "cold"),
            query(lab, f"SELECT * FROM {theirs}", cold=kind == "cold"),
            bar=bar,
            note="cold: stock Delta from a checkpoint, both caches of logs emptied",
        )


def merge(lab: SparkLab) -> Iterator[Row]:
    total, size, rows = spark_dml.merged_rows(lab)
    text = (
        f"MERGE INTO {{}} t USING ({rows}) s ON {spark_dml.MERGED_ON} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    yield faster(
        "merge",
        f"MERGE of {size:,} rows into {total:,}, 1 % matched, 1 of 16 partitions",
        statement(lab, text.format(f"{WRITTEN}.bench.merged")),
        statement(lab, text.format(stock(lab, "merged"))),
        bar=1.0, repeats=3, before=partial(_restore, lab),
        note="keys and partition by the condition, none named by a literal; "
        "into the same table each time",
    )  # fmt: skip


def merge_verb(lab: SparkLab) -> Iterator[Row]:
    """Both ours: the statement, and the verb in the place of stock Delta."""
    total, size, rows = spark_dml.merged_rows(lab)
    text = (
        f"MERGE INTO {WRITTEN}.bench.merged t USING ({rows}) s ON {spark_dml.MERGED_ON} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )

    def verb() -> None:
        source = lab.spark.sql(rows).alias("s")
        builder = written(lab).table("bench.merged").alias("t").merge(source, spark_dml.MERGED_ON)
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    yield faster(
        "merge-verb",
        f"the same MERGE of {size:,} rows into {total:,}, beside our own verb",
        statement(lab, text), verb,
        bar=None, repeats=3, before=partial(_restore, lab), peer="db.table().merge",
        note="both on the lake",
    )  # fmt: skip


def _restore(lab: SparkLab) -> None:
    lab.spark.sql(f"RESTORE TABLE {stock(lab, 'merged')} TO VERSION AS OF 0")
    spark_dml.restore_first(written(lab).lake.table("bench.merged"))


def change(lab: SparkLab, line: str, words: str) -> Iterator[Row]:
    """Change the rows of one key; another one each time."""
    theirs = stock(lab, "keyed")
    total, step = lab.scaled(1_000_000), lab.scaled(1_000_000) // 1000
    # Other keys than the other line has.
    first = step // 2 if line == "delete" else step // 3
    mine, others = (iter(range(first, total, step * 7 + 1)) for _ in range(2))
    yield faster(
        line,
        f"{line.upper()} of one key in a table of 1,000 files",
        lambda: lab.spark.sql(words.format(f"{WRITTEN}.bench.keyed", next(mine))).collect(),
        lambda: lab.spark.sql(words.format(theirs, next(others))).collect(),
        bar=1.0, repeats=5,
        note="each key in one file, found by its stats; another key each time",
    )  # fmt: skip


def create(lab: SparkLab) -> Iterator[Row]:
    count = lab.scaled(100_000)

    def made(catalog: str, files: int) -> Callable[[], Any]:
        def work() -> None:
            name = f"c{uuid.uuid4().hex}"
            place = "" if catalog == WRITTEN else f"LOCATION '{lab.path(name)}'"
            space = "bench" if catalog == WRITTEN else "default"
            # One task: each value of the partition is one file.
            lab.spark.sql(
                f"CREATE TABLE {catalog}.{space}.{name} USING delta PARTITIONED BY (p) {place} "
                f"AS SELECT id % 97 AS v, id AS p FROM range(0, {files}, 1, 1)"
            )

        return work

    for catalog in (WRITTEN, "spark_catalog"):
        made(catalog, 200)()
    yield faster(
        "create",
        f"CREATE TABLE AS SELECT with {count:,} files",
        made(WRITTEN, count),
        made("spark_catalog", count),
        bar=1.1, repeats=2,
        note="files of one row, written by one task; a new table each time",
    )  # fmt: skip


def scan(lab: SparkLab) -> Iterator[Row]:
    theirs = stock(lab, "rows")
    text = "SELECT sum(id), sum(v), count(n) FROM {}"
    yield faster(
        "scan",
        f"SELECT of three aggregates over {lab.scaled(20_000_000):,} rows",
        statement(lab, text.format(f"{READ}.bench.rows")),
        statement(lab, text.format(theirs)),
        bar=1.0,
        note="the same files",
    )


LINES: dict[str, spark_lab.Line] = {
    "small": small,
    "selective": selective,
    "open": open_many,
    "merge": merge,
    "merge-verb": merge_verb,
    "update": partial(change, line="update", words="UPDATE {} SET v = v + 1 WHERE id = {}"),
    "delete": partial(change, line="delete", words="DELETE FROM {} WHERE id = {}"),
    "create": create,
    "scan": scan,
}


if __name__ == "__main__":
    sys.exit(spark_lab.run("spark_sql", TITLE, LINES, prepare))
