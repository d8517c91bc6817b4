"""The main job in one screen: two tables, one transaction, time travel."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltasql.cli.output import Output
from deltasql.cli.session import Session, command

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "demo", examples=["deltasql demo", "deltasql demo --folder ./demo"])(demo)


def demo(
    session: Session,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Keep the lake in this new folder.", metavar="DIR"),
    ] = None,
) -> None:
    """Show what deltasql does, in one screen.

    On SQLite, in a folder that is removed afterwards.
    """
    from deltasql.lake.catalog import connect

    with _place(folder) as place:
        url = f"sqlite:///{place.absolute() / 'lake.db'}"
        tables = (place.absolute() / "lake").as_uri()
        with connect(url, tables, "demo", settings={"mirror.mode": "sync"}) as lake:
            told = _play(lake, session.out)
    if session.out.is_json:
        session.out.record(told)
    elif folder is not None:
        session.out.note(f"the lake is kept: deltasql tables --url {url}")


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="deltasql-demo-") as name:
            yield Path(name)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _play(lake: Lake, out: Output) -> dict[str, Any]:
    import pyarrow as pa

    say = (lambda _: None) if out.is_json else out.raw
    orders = lake.create_table(
        "sales.orders",
        pa.schema([("id", pa.int64()), ("customer", pa.string()), ("day", pa.string())]),
        partition_by=["day"],
    )
    lines = lake.create_table(
        "sales.lines",
        pa.schema([("order_id", pa.int64()), ("item", pa.string()), ("amount", pa.float64())]),
    )
    say("1  two Delta tables; their log is a SQLite file")
    orders.append(pa.table({"id": [1, 2], "customer": ["Ada", "Grace"], "day": ["2026-11-01"] * 2}))
    lines.append(pa.table({"order_id": [1, 2], "item": ["lamp", "desk"], "amount": [40.0, 250.0]}))
    say("2  a blind append to each: one round trip, never a conflict")
    with lake.transaction() as tx:
        tx.table("sales.orders").append(
            pa.table({"id": [3], "customer": ["Edsger"], "day": ["2026-11-02"]})
        )
        tx.table("sales.lines").append(
            pa.table({"order_id": [3], "item": ["chair"], "amount": [99.0]})
        )
    say("3  one transaction over both tables")
    try:
        with lake.transaction() as broken:
            broken.table("sales.orders").append(
                pa.table({"id": [4], "customer": ["Nobody"], "day": ["2026-11-03"]})
            )
            raise RuntimeError("the job dies half way")
    except RuntimeError as error:
        say(f"4  {error}: orders stay at version {orders.version}")
    travel = [
        (
            version,
            orders.snapshot(version=version).scan().to_arrow().num_rows,
            lines.snapshot(version=version).scan().to_arrow().num_rows,
        )
        for version in range(orders.version + 1)
    ]
    needed = orders.snapshot().files(where="day = '2026-11-02'").num_rows
    say(f"5  day = '2026-11-02' needs {needed} of 2 files, chosen inside the database")
    names = sorted(path.name for path in Path(_log_folder(orders.location)).glob("*.json"))
    say(f"6  and the mirror, for any Delta reader: {len(names)} commit files in _delta_log")
    if not out.is_json:
        out.table(("version", "orders", "lines"), travel, title="time travel")
        _history(lake, out)
    return {
        "transaction": dict(tx.versions),
        "time_travel": [
            dict(zip(("version", "orders", "lines"), row, strict=True)) for row in travel
        ],
        "files_needed": needed,
        "mirror": names,
    }


def _log_folder(location: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(location).path) + "/_delta_log"


def _history(lake: Lake, out: Output) -> None:
    rows = [
        (entry.version, entry.timestamp, entry.operation, (entry.transaction_id or "")[:8])
        for entry in lake.table("sales.orders").history()
    ]
    out.table(("version", "timestamp", "operation", "transaction"), rows, title="history of orders")
