"""A client of a Spark Connect server, for `test_connect.py`: prints what it found as JSON.

It knows the server's address and the names of tables; the lake is the server's business.
"""

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltasql.spark


def told(do) -> str:
    """What a call is refused with."""
    try:
        do()
    except (PySparkException, deltasql.DeltaSqlError) as error:
        return str(error)
    return ""


def main() -> None:
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    deltasql.spark.register(spark)

    def frame(name="c.t", **options):
        return spark.read.format("deltasql").options(lake="sales", **options).load(name)

    def save(rows, mode, **options):
        rows.write.format("deltasql").mode(mode).options(lake="sales", **options).save("c.t")

    def ids(rows):
        return sorted(row.id for row in rows.collect())

    save(spark.range(5), "append")
    save(spark.range(5, 8), "append")
    found = {"appended": ids(frame()), "filtered": ids(frame().where("id > 5"))}
    save(spark.range(2), "overwrite")
    found["overwritten"] = ids(frame())
    found["old"] = ids(frame(versionAsOf="0"))
    spark.sql("CREATE TABLE tt USING deltasql OPTIONS (table 'c.t', lake 'sales')")
    found["sql"] = spark.sql("SELECT sum(id) AS s FROM tt").collect()[0].s
    spark.sql("INSERT INTO tt VALUES (40)")
    found["inserted"] = ids(spark.table("tt"))
    found["merge"] = told(lambda: save(spark.range(1), "append", mergeSchema="true"))
    found["native"] = told(lambda: deltasql.spark.attach(spark, "sqlite:///x.db"))
    other = spark.read.format("deltasql").option("lake", "x").load("c.t")
    found["unknown"] = told(other.collect)
    print("RESULT " + json.dumps(found), flush=True)
    spark.stop()


main()
