"""Reads Delta tables with Spark for `spark.py`: a line of JSON in, a line of JSON out.

Runs in the environment of PySpark, and imports nothing of the tests. Requests:

    {"do": "read", "path": …, "version": null}     → {"schema", "count", "rows", "files"}
    {"do": "count", "path": …}                     → {"count"}, of rows that were really read
    {"do": "files", "path": …, "version": null}    → {"files"}
    {"do": "append", "path": …}                    → {}
    {"do": "sql", "statements": […]}               → {}
    {"do": "reach", "settings": {…}}               → {}, Hadoop's settings for an object store

Rows are lists of values in the schema's order: dates, times, decimals as text (without
zeros at the end), times of either kind without a zone (the session's is UTC), bytes as
hexadecimal digits, structs as objects, maps as sorted lists of pairs. Files are names below
the table. A request that fails gets {"error": Spark's message}.
"""

import datetime as dt
import decimal
import json
import os
import sys

from pyspark.sql import DataFrame, Row, SparkSession


def start(work: str, given: str) -> SparkSession:
    settings = {
        **json.loads(given),
        "spark.driver.memory": "1g",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
    }
    builder = SparkSession.builder.master("local[2]").appName("deltasql tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def answer(spark: SparkSession, request: dict) -> dict:
    if request["do"] == "sql":
        for statement in request["statements"]:
            spark.sql(statement).collect()
        return {}
    if request["do"] == "reach":
        for key, value in request["settings"].items():
            spark.sparkContext._jsc.hadoopConfiguration().set(key, value)
        return {}
    path, version = request["path"], request.get("version")
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    frame = reader.load(path)
    match request["do"]:
        case "append":
            frame.limit(1).write.format("delta").mode("append").save(path)
            return {}
        case "count":
            # In the JVM: Python has no form for some keys of maps, nor for variants.
            return {"count": frame._jdf.collectAsList().size()}
        case "files":
            return {"files": files(frame, path)}
        case "read":
            rows = [[plain(value) for value in row] for row in frame.collect()]
            return {
                "schema": json.loads(frame.schema.json()),
                # By the stats alone; once a table will do.
                "count": frame.count() if version is None else len(rows),
                "rows": rows,
                "files": files(frame, path),
            }
    raise ValueError(f"unknown request {request['do']}")


def files(frame: DataFrame, root: str) -> list[str]:
    """Paths relative to the table, as names of files: Spark has decoded those of the log."""
    # As one text: the gateway hands over a list item by item, 0.1 ms each.
    jvm = frame.sparkSession._jvm
    joined = jvm.org.apache.hadoop.util.StringUtils.join("\n", frame._jdf.inputFiles())
    start = f"{root}/" if "://" in root else f"file:{root}/"
    return sorted(item.removeprefix(start) for item in joined.split("\n") if item)


def plain(value):
    match value:
        case Row():
            return {name: plain(item) for name, item in value.asDict().items()}
        case dict():
            return sorted(([plain(key), plain(item)] for key, item in value.items()), key=repr)
        case list():
            return [plain(item) for item in value]
        case bytes() | bytearray():
            return value.hex()
        case decimal.Decimal():
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case dt.date():
            return value.isoformat()
    return value


def main() -> None:
    # Answers go where only we write; whatever else prints, prints to the log.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = start(*sys.argv[1:])
    for line in sys.stdin:
        try:
            found = answer(spark, json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
            cause = getattr(error, "java_exception", None)
            found = {"error": str(error if cause is None else cause) or repr(error)}
        out.write(json.dumps(found) + "\n")
        out.flush()
    spark.stop()


main()
