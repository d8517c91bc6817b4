"""A job on a cluster of executors, for `test_cluster.py`: prints what it found as JSON.

The executors' Python has PySpark and nothing else, and their environment knows no lake.
Arguments: the lake's URL, its location, settings as JSON, the jars, a work folder,
Spark's settings as JSON, how many executors.
"""

import json
import os
import sys
from pathlib import Path

import deltasql
import deltasql.spark


def main() -> None:
    url, location, settings, jars, more_jars, work, small, executors = sys.argv[1:]
    extra = [str(jar) for jar in sorted(Path(more_jars).glob("*.jar"))]
    spark = deltasql.spark.session(
        "cluster",
        master=f"local-cluster[{executors},1,512]",
        jars=jars,
        config={
            **json.loads(small),
            "spark.jars": ",".join(extra),
            "spark.executor.memory": "512m",
            # The executors' Python has no Arrow either.
            "spark.sql.execution.pythonUDF.arrow.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{work}/events",
            "spark.eventLog.compress": "false",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    lake = deltasql.connect(url, location=location, settings=json.loads(settings))
    db = deltasql.spark.attach(spark, lake)
    print("RESULT " + json.dumps(run(spark, db, lake)), flush=True)
    spark.stop()
    lake.close()


def run(spark, db, lake) -> dict:
    from pyspark import TaskContext
    from pyspark.sql.functions import udf

    @udf("bigint")
    def flaky(value):
        if TaskContext.get().attemptNumber() == 0 and value % 50 == 49:
            raise RuntimeError("this attempt fails on purpose")
        return value

    @udf("string")
    def modules(_value):
        import importlib.util

        found = [n for n in ("psycopg", "duckdb", "pyarrow") if importlib.util.find_spec(n)]
        known = [key for key in os.environ if key.startswith("DELTASQL")]
        return ",".join(found + known)

    frame = spark.range(100, numPartitions=4).select(flaky("id").alias("id"))
    db.write(frame.selectExpr("id", "id % 2 AS p"), "c.t", partition_by="p")
    db.write(spark.range(100, 110).selectExpr("id", "0L AS p"), "c.t")
    db.write(
        spark.range(200, 201).selectExpr("id", "1L AS p"), "c.t",
        mode="overwrite", replace_where="p = 1 AND id > 50",
    )  # fmt: skip
    read = db.read("c.t", where="id >= 0")
    plan = read._jdf.queryExecution().toString()
    lake.mirror.run(once=True)
    place = lake.table("c.t").location.replace("s3://", "s3a://")
    stock = spark.read.format("delta").load(place)
    return {
        "sum": read.selectExpr("sum(id)").collect()[0][0],
        "count": read.count(),
        "stock": [stock.selectExpr("sum(id)").collect()[0][0], stock.count()],
        "executors": sorted({r[0] for r in spark.range(8).select(modules("id")).collect()}),
        "plan": plan,
        "location": lake.table("c.t").location,
        "files": lake.table("c.t").snapshot().files().num_rows,
    }


main()
