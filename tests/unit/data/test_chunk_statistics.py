"""The walk through a footer says what PyArrow says, where the footer is sound."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.data.reading.chunk_statistics import chunk_statistics

_COLUMNS = {
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1), 4),
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1), 8),
    "s": (pa.string(), st.text(max_size=20), None),
    "d": (pa.float64(), st.floats(allow_nan=False), None),
}


@st.composite
def tables(draw):
    count = draw(st.integers(1, 12))
    return pa.table(
        {
            name: pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
            for name, (kind, values, _) in _COLUMNS.items()
        }
    )


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 4), st.booleans(), st.sampled_from(["1.0", "2.6"]))
def test_a_sound_footer_says_what_pyarrow_says(table, row_group_size, is_indexed, version):
    sink = io.BytesIO()
    pq.write_table(
        table, sink, row_group_size=row_group_size, write_page_index=is_indexed, version=version
    )
    content = sink.getvalue()
    length = int.from_bytes(content[-8:-4], "little")
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    found = chunk_statistics(content[-8 - length : -8], range(4), metadata.num_row_groups)
    assert len(found) == metadata.num_row_groups
    for group, known in enumerate(found):
        for number, (name, (_, _, width)) in enumerate(_COLUMNS.items()):
            wanted = metadata.row_group(group).column(number).statistics
            assert known[number].nulls == wanted.null_count
            if not wanted.has_min_max or name == "d":
                continue
            bounds = [known[number].low, known[number].high]
            if width is None:
                assert [bound.decode() for bound in bounds] == [wanted.min, wanted.max]
            else:
                assert all(len(bound) == width for bound in bounds)
                numbers = [int.from_bytes(bound, "little", signed=True) for bound in bounds]
                assert numbers == [wanted.min, wanted.max]
