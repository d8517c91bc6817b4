"""A client of Spark Connect, for `test_servers.py`: prints what it found as JSON.

It knows the server's address and the names of tables.
"""

import json
import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf


def told(do) -> str:
    """What a call is refused with."""
    try:
        do()
    except PySparkException as error:
        return str(error)
    return ""


def main() -> None:
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()

    def ids():
        return sorted(row.id for row in spark.table("lake.s.t").collect())

    @udf("string")
    def modules(_value):
        import importlib.util

        found = [n for n in ("deltasql", "psycopg", "pyarrow") if importlib.util.find_spec(n)]
        return ",".join(found + [key for key in os.environ if key.startswith("DELTASQL")])

    found = {"thrift": ids()}
    spark.range(10, 11).writeTo("lake.s.t").append()
    found["written"] = ids()
    found["executors"] = sorted({r[0] for r in spark.range(8).select(modules("id")).collect()})

    found["missing"] = told(lambda: spark.table("lake.s.no").collect())
    print("RESULT " + json.dumps(found), flush=True)
    spark.stop()


main()
