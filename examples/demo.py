"""The main job in one screen: two tables, one transaction, time travel. Run by `make demo`."""

import tempfile
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import deltasql

ORDERS = pa.schema([("id", pa.int64()), ("customer", pa.string()), ("day", pa.string())])
LINES = pa.schema([("order_id", pa.int64()), ("item", pa.string()), ("amount", pa.float64())])

console = Console()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="deltasql-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'lake.db'}"
        with deltasql.connect(url, committer="demo") as lake:
            console.rule("[bold]deltasql: Delta tables whose log is a SQL database")
            run(lake)


def run(lake: deltasql.Lake) -> None:
    orders = lake.create_table("sales.orders", ORDERS, partition_by=["day"])
    lines = lake.create_table("sales.lines", LINES)
    console.print(f"\n[bold]1[/] two tables in [cyan]{lake.url.split('/')[-1]}[/], version 0 each")

    orders.append(pa.table({"id": [1, 2], "customer": ["Ada", "Grace"], "day": ["2026-11-01"] * 2}))
    lines.append(pa.table({"order_id": [1, 2], "item": ["lamp", "desk"], "amount": [40.0, 250.0]}))
    console.print("[bold]2[/] a blind append to each: one round trip, never a conflict")

    with lake.transaction() as tx:
        tx.table("sales.orders").append(
            pa.table({"id": [3], "customer": ["Edsger"], "day": ["2026-11-02"]})
        )
        tx.table("sales.lines").append(
            pa.table({"order_id": [3], "item": ["chair"], "amount": [99.0]})
        )
    console.print(f"[bold]3[/] one transaction over both: {dict(tx.versions)}")

    try:
        with lake.transaction() as tx:
            tx.table("sales.orders").append(
                pa.table({"id": [4], "customer": ["Nobody"], "day": ["2026-11-03"]})
            )
            raise RuntimeError("the job dies half way")
    except RuntimeError as error:
        console.print(f"[bold]4[/] {error}: orders stay at version {orders.version}\n")

    show(orders, lines)
    history(orders)
    files = orders.snapshot().files(where="day = '2026-11-02'")
    console.print(
        f"[bold]5[/] day = '2026-11-02' needs {files.num_rows} of "
        f"{orders.snapshot().files().num_rows} files, chosen inside the database"
    )


def show(orders: deltasql.Table, lines: deltasql.Table) -> None:
    grid = Grid(title="time travel", title_justify="left")
    for heading in ("version", "orders", "lines"):
        grid.add_column(heading, justify="right")
    for version in range(orders.version + 1):
        grid.add_row(
            str(version),
            str(orders.snapshot(version=version).scan().to_arrow().num_rows),
            str(lines.snapshot(version=version).scan().to_arrow().num_rows),
        )
    console.print(grid)


def history(table: deltasql.Table) -> None:
    grid = Grid(title=f"history of {table.name}", title_justify="left")
    for heading in ("version", "time", "operation", "by", "transaction"):
        grid.add_column(heading)
    for entry in table.history():
        grid.add_row(
            str(entry.version),
            entry.timestamp.isoformat(sep=" ", timespec="milliseconds"),
            entry.operation,
            entry.committer,
            (entry.transaction_id or "")[:8],
        )
    console.print(grid)


if __name__ == "__main__":
    main()
