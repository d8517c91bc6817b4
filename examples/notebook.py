# %% [markdown]
# # A lake in a notebook
#
# Cells in the percent format: VS Code, Jupyter (with Jupytext), PyCharm and Spyder open this file
# as a notebook. Run from the command line it is a script: `python examples/notebook.py`.

# %%
import tempfile
from pathlib import Path

import deltasql
import deltasql.spark

folder = tempfile.TemporaryDirectory(prefix="deltasql-notebook-")
lake = deltasql.connect(f"sqlite:///{Path(folder.name) / 'lake.db'}")
spark = deltasql.spark.session(
    "notebook",
    master="local[2]",
    config={
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
    },
)
db = deltasql.spark.attach(spark, lake, catalog="lake")

# %% [markdown]
# ## Tables
#
# The lake is a catalog of the session. What you know from Delta works by name.

# %%
spark.sql("""
    CREATE TABLE lake.shop.orders (id BIGINT, item STRING, amount DOUBLE, day DATE)
    PARTITIONED BY (day) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')""")
spark.sql("""
    INSERT INTO lake.shop.orders VALUES
        (1, 'lamp', 40.0, DATE'2026-11-01'),
        (2, 'desk', 250.0, DATE'2026-11-01'),
        (3, 'lamp', 40.0, DATE'2026-11-02')""")
spark.sql("SHOW TABLES IN lake.shop").show()

# %%
orders = spark.table("lake.shop.orders")
orders.groupBy("item").sum("amount").orderBy("item").show()
assert orders.where("day = '2026-11-01'").count() == 2

# %% [markdown]
# ## A mistake, and its end
#
# Every statement is a version. A WHERE that was forgotten is found in the history, compared with
# the version before, and taken back.

# %%
spark.sql("UPDATE lake.shop.orders SET amount = 0")
spark.sql("CALL lake.system.history('shop.orders')").select("version", "operation").show()

# %%
spark.sql("""
    SELECT now.id, before.amount AS before, now.amount AS now
    FROM lake.shop.orders now JOIN lake.shop.orders VERSION AS OF 1 before USING (id)
    WHERE now.amount <> before.amount ORDER BY id""").show()

# %%
spark.sql("RESTORE TABLE lake.shop.orders TO VERSION AS OF 1")
assert spark.table("lake.shop.orders").agg({"amount": "sum"}).first()[0] == 330.0

# %% [markdown]
# ## Two tables, one transaction
#
# Each in a cell of its own: a transaction that was begun lasts until it is committed. Nobody else
# sees what is in it.

# %%
spark.sql("CREATE TABLE lake.shop.stock AS SELECT 'lamp' AS item, 10 AS on_hand")
spark.sql("CALL lake.system.begin()")

# %%
spark.sql("INSERT INTO lake.shop.orders VALUES (4, 'lamp', 40.0, DATE'2026-11-03')")
spark.sql("UPDATE lake.shop.stock SET on_hand = on_hand - 1 WHERE item = 'lamp'")
spark.table("lake.shop.stock").show()
assert lake.table("shop.orders").count() == 3, "not committed yet"

# %%
spark.sql("CALL lake.system.commit()").show()
assert lake.table("shop.orders").count() == 4

# %% [markdown]
# ## The same rows without Spark
#
# In Arrow from Python, and with any Delta reader from the folder.

# %%
table = lake.table("shop.orders")
print(table.scan("item = 'lamp'", columns=["id", "day"]).to_arrow().sort_by("id"))
changes = spark.sql(
    "SELECT * FROM table_changes('lake.shop.orders', 1) ORDER BY _commit_version, id"
)
changes.select("_commit_version", "_change_type", "id", "amount").show()

# %%
assert table.mirror.validate().ok
db.detach()
lake.close()
folder.cleanup()
