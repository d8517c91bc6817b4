"""What docs/spark.md takes for granted: a session without noise, frames, a table to archive to."""

import os
from importlib import import_module
from pathlib import Path

import pyarrow as pa

import deltasql

# A database and a bucket are files here: the calls are the same.
PLACES = {
    "postgresql://…/lake": "sqlite:///lake.db",
    "postgresql://…": "sqlite:///lake.db",
    "s3://bucket/lake": "./lake",
    'where="…"': 'where="amount > 0"',
    '"versionAsOf", 7': '"versionAsOf", 0',
}

# For the processes of the data source, which begin with Spark's own.
os.environ["DELTASQL_URL"] = f"sqlite:///{Path.cwd() / 'lake.db'}"
os.environ["DELTASQL_LOCATION"] = str(Path.cwd() / "lake")
spark = import_module("deltasql.spark").session(
    "docs",
    config={
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    },
)
df = orders = spark.createDataFrame([(1, "2026-11-01")], "id BIGINT, day STRING")
with deltasql.connect("sqlite:///lake.db", location="./lake") as made:
    lines = [("id", pa.int64()), *((name, pa.float64()) for name in ("amount", "vat", "gross"))]
    made.create_table("sales.archive", pa.schema(lines))


def _in_spark(block):
    for statement in block.code.split(";"):
        if statement.strip():
            spark.sql(statement)


WAYS = {"sql": _in_spark}
