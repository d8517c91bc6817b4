"""What counts as a version that SQL does not know: only what a reader would begin with."""

from __future__ import annotations

import pytest

from deltasql.delta_log.listing import newest_after
from deltasql.objectstore.local import LocalStore

PART = "{:020}.checkpoint.{:010}.{:010}.parquet"


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        ([], None),
        ([f"{3:020}.json", f"{3:020}.checkpoint.parquet", f"{5:020}.crc"], None),
        ([f"{4:020}.json"], 4),
        # Across a gap, as a bridge leaves it.
        ([f"{90:020}.checkpoint.parquet", f"{90:020}.json"], 90),
        ([PART.format(4, 1, 3)], None),
        ([PART.format(4, 1, 3), PART.format(4, 3, 3), f"{4:020}.json"], 4),
        ([PART.format(7, number, 2) for number in (1, 2)], 7),
        ([PART.format(7, 1, 2), f"{6:020}.checkpoint.parquet"], 6),
    ],
)
def test_the_newest_after_a_version(tmp_path, names, newest):
    objects = LocalStore(str(tmp_path))
    for name in names:
        objects.put(f"_delta_log/{name}", b"x")
    found = newest_after(objects, 3)
    assert (None if found is None else found.version) == newest
