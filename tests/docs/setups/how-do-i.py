"""What docs/how-do-i.md takes for granted: a session without noise."""

from importlib import import_module

spark = import_module("deltasql.spark").session(
    "docs",
    config={
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    },
)
