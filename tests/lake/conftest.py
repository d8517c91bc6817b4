"""A lake on each database, and a table or two in it."""

import pyarrow as pa
import pytest

import deltasql

ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])


@pytest.fixture
def lake(store_url, tmp_path):
    with deltasql.connect(store_url, location=(tmp_path / "lake").as_uri(), committer="me") as lake:
        yield lake


@pytest.fixture
def orders(lake):
    return lake.create_table("sales.orders", ORDERS, partition_by=["day"])


@pytest.fixture
def rows():
    def make(*ids, day="2026-11-01", amount=1.0):
        return pa.table({"id": list(ids), "day": [day] * len(ids), "amount": [amount] * len(ids)})

    return make


@pytest.fixture
def ids():
    def read(table, **options):
        return sorted(table.scan(**options).to_arrow().column("id").to_pylist())

    return read


@pytest.fixture
def data_files(tmp_path):
    def found():
        return sorted(path.name for path in (tmp_path / "lake").rglob("*.parquet"))

    return found
