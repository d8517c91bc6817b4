"""Orders and their lines, in one transaction: a crash half way leaves neither."""

import tempfile
from pathlib import Path

import pyarrow as pa

import deltasql

ORDERS = pa.schema([("id", pa.int64()), ("customer", pa.string()), ("day", pa.string())])
LINES = pa.schema([("order_id", pa.int64()), ("item", pa.string()), ("amount", pa.float64())])


def load(lake: deltasql.Lake, batch: list[dict], *, crash: bool = False) -> None:
    orders = [{key: order[key] for key in ORDERS.names} for order in batch]
    lines = [{"order_id": order["id"], **line} for order in batch for line in order["lines"]]
    with lake.transaction() as tx:
        tx.table("sales.orders").append(pa.Table.from_pylist(orders, schema=ORDERS))
        if crash:
            raise RuntimeError("out of memory, say")
        tx.table("sales.lines").append(pa.Table.from_pylist(lines, schema=LINES))


def batch(number: int) -> list[dict]:
    return [
        {
            "id": 10 * number + n,
            "customer": f"customer {n}",
            "day": f"2026-11-{number + 1:02}",
            "lines": [{"item": "lamp", "amount": 40.0}, {"item": "desk", "amount": 250.0}],
        }
        for n in range(3)
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'lake.db'}"
        with deltasql.connect(url, location=f"{folder}/lake") as lake:
            orders = lake.create_table("sales.orders", ORDERS, partition_by=["day"])
            lines = lake.create_table("sales.lines", LINES)
            load(lake, batch(0))
            try:
                load(lake, batch(1), crash=True)
            except RuntimeError as error:
                print(f"the second batch failed: {error}")
            load(lake, batch(2))
            counts = [table.scan().to_arrow().num_rows for table in (orders, lines)]
            print(f"{counts[0]} orders, {counts[1]} lines")
            assert counts == [6, 12]


if __name__ == "__main__":
    main()
