"""A PySpark job written for Delta tables: it knows Spark, SQL and the name of a catalog.

    spark-submit examples/pipeline/job.py spark_catalog     # tables of stock Delta
    spark-submit examples/pipeline/job.py lake              # tables of a lake

Not a line of it is deltasql's; see README.md beside it for what spark-submit has to know.
"""

import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, catalog: str, checkpoints: str) -> dict:
    """Load, merge, stream and tidy up; returns what is in the tables afterwards."""
    shop = f"{catalog}.shop"
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {shop}")
    spark.sql(
        f"CREATE TABLE {shop}.orders (id BIGINT, customer STRING, amount BIGINT, day DATE) "
        "USING delta PARTITIONED BY (day) TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    load(spark, f"{shop}.orders", [(1, "Ada", 10, 1), (2, "Grace", 20, 1), (3, "Ada", 30, 2)])
    stream(spark, f"{shop}.orders", f"{shop}.feed", f"{checkpoints}/feed")

    incoming = rows(spark, [(3, "Ada", 35, 2), (4, "Linus", 40, 3)])
    incoming.createOrReplaceTempView("incoming")
    spark.sql(
        f"MERGE INTO {shop}.orders t USING incoming s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(f"DELETE FROM {shop}.orders WHERE id = 2")
    load(spark, f"{shop}.orders", [(5, "Grace", 50, 3)])
    stream(spark, f"{shop}.orders", f"{shop}.feed", f"{checkpoints}/feed")

    revenue = spark.table(f"{shop}.orders").groupBy("customer").sum("amount")
    revenue = revenue.toDF("customer", "amount")
    revenue.write.format("delta").mode("overwrite").saveAsTable(f"{shop}.revenue")
    spark.sql(f"OPTIMIZE {shop}.orders")
    return {
        "orders": found(spark.table(f"{shop}.orders")),
        "before": found(spark.sql(f"SELECT * FROM {shop}.orders VERSION AS OF 1")),
        "revenue": found(spark.table(f"{shop}.revenue")),
        "feed": found(spark.table(f"{shop}.feed")),
        "operations": [
            row.operation for row in spark.sql(f"DESCRIBE HISTORY {shop}.orders").collect()
        ],
    }


def rows(spark: SparkSession, given: list) -> DataFrame:
    frame = spark.createDataFrame(given, "id BIGINT, customer STRING, amount BIGINT, n INT")
    return frame.selectExpr("id", "customer", "amount", "make_date(2026, 11, n) AS day")


def load(spark: SparkSession, name: str, given: list) -> None:
    rows(spark, given).write.format("delta").mode("append").saveAsTable(name)


def stream(spark: SparkSession, source: str, target: str, checkpoint: str) -> None:
    """What changed since the last time, from a name to a name."""
    changes = spark.readStream.option("readChangeFeed", "true").table(source)
    query = changes.select("id", "amount", "_change_type").writeStream
    query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.toTable(target, format="delta").awaitTermination()


def found(frame: DataFrame) -> list:
    return sorted(tuple(map(str, row)) for row in frame.collect())


if __name__ == "__main__":
    session = SparkSession.builder.appName("pipeline").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for name, value in run(session, sys.argv[1], folder).items():
            print(name, *value, sep="\n  ")
    session.stop()
