"""PySpark on tables whose log is in SQL.

    spark = deltasql.spark.session(app_name="etl")
    db = deltasql.spark.attach(spark, lake)
    db.write(db.read("sales.orders", where="day = '2026-11-01'"), "sales.today")

Delta's own reader and writer do the work; the snapshot always comes from the database, never from
`_delta_log`, and the driver commits once.
"""

from deltasql.spark.database import Database
from deltasql.spark.sessions.session import attach, register, session

__all__ = ["Database", "attach", "register", "session"]
