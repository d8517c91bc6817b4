"""Streams that can be read once, appended while the schema changes under them."""

import pyarrow as pa
import pytest

import deltasql
from tests.lake.test_stale_state import elsewhere, with_column  # noqa: F401 - a fixture


class Once:
    """Arrow data, for those who ask first."""

    def __init__(self, table: pa.Table) -> None:
        self._reader = table.to_reader(max_chunksize=10)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._reader.__arrow_c_stream__(requested_schema)


@pytest.fixture
def fifty():
    ids = list(range(50))
    return pa.table({"id": ids, "day": ["d"] * 50, "amount": [1.0] * 50})


@pytest.mark.parametrize("stream", [Once, pa.Table.to_reader], ids=["any stream", "a reader"])
def test_every_row_is_there_though_the_schema_changed(
    lake,
    elsewhere,  # noqa: F811
    orders,
    fifty,
    ids,
    data_files,
    stream,
):
    lake.states.current(orders.table_id)
    there = elsewhere.table("sales.orders")
    there.commit([with_column(there, "extra")])
    assert orders.append(stream(fifty)) == 2
    assert ids(orders) == list(range(50))
    # What was written for the old schema is gone.
    assert len(data_files()) == 1


def test_columns_are_merged_from_a_stream(orders, fifty, ids):
    more = fifty.append_column("extra", pa.array([7] * 50))
    assert orders.append(Once(more), schema_mode="merge") == 1
    assert ids(orders, where="extra = 7") == list(range(50))


def test_a_stream_that_breaks_off_leaves_nothing(orders, fifty, data_files):
    def batches():
        yield fifty.to_batches()[0]
        raise deltasql.ValidationError("the source is gone")

    with pytest.raises(deltasql.ValidationError, match="the source is gone"):
        orders.append(pa.RecordBatchReader.from_batches(fifty.schema, batches()))
    assert (orders.version, data_files()) == (0, [])
