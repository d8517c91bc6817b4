"""What docs/spark-dml.md takes for granted: a session, tables, frames, a stream of files."""

import sqlite3
from importlib import import_module
from pathlib import Path

import deltasql

_FOLDER = Path.cwd()
PLACES = {
    "id = %s": "id = ?",
    '"sales.orders", 3, 9': '"sales.orders", 1, 2',
    '"checkpointLocation", …': f'"checkpointLocation", "{_FOLDER / "checkpoint"}"',
    ".start()": ".trigger(availableNow=True).start().awaitTermination()",
    "starting_version=7": "starting_version=0",
    '"startingVersion", 7': '"startingVersion", 0',
}

spark = import_module("deltasql.spark").session(
    "docs",
    config={
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    },
)
lake = deltasql.connect(f"sqlite:///{_FOLDER / 'lake.db'}", location=str(_FOLDER / "lake"))
db = import_module("deltasql.spark").attach(spark, lake)
_COLUMNS = "id BIGINT, v INT, item STRING, count INT"
db.create_table("sales.orders", _COLUMNS, properties={"delta.enableChangeDataFeed": "true"})
db.create_table("sales.stock", "item STRING, left INT")
db.write(spark.createDataFrame([(1, 1, "lamp", 1), (200, 1, "desk", 2)], _COLUMNS), "sales.orders")
db.write(spark.createDataFrame([("lamp", 10)], "item STRING, left INT"), "sales.stock")
updates = spark.createDataFrame([(200, 8, "desk", 3, False)], f"{_COLUMNS}, gone BOOLEAN")
new_orders = spark.createDataFrame([(300, 1, "lamp", 4)], _COLUMNS)
with sqlite3.connect(_FOLDER / "lake.db") as _database:
    _database.execute("CREATE TABLE jobs (id INTEGER, done INTEGER)")
job = 1
(_FOLDER / "incoming").mkdir()
(_FOLDER / "incoming" / "1.json").write_text('{"id": 400, "v": 1, "item": "lamp", "count": 1}\n')
stream = spark.readStream.schema(_COLUMNS).json(str(_FOLDER / "incoming"))
