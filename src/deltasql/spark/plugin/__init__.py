"""The Python process beside a driver that has none: `spark-sql`, Thrift, Connect, Scala.

`spark.plugins=io.deltasql.spark.LakePlugin` starts it, and asks it what an attached session would
ask PySpark's callback server.
"""
