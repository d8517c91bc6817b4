"""`CALL lake.system.…`: the verbs of a lake in SQL."""

from deltasql.spark.catalog.procedures.calls import Opened, Procedures

__all__ = ["Opened", "Procedures"]
