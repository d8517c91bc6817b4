"""`CALL lake.system.…`: the lake's operations in SQL."""

from deltasql.spark.catalog.procedures.calls import Opened, Procedures

__all__ = ["Opened", "Procedures"]
