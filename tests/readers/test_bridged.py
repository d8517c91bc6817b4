"""A bridged mirror as four readers see it: the newest version, and no wrong one."""

from __future__ import annotations

import re
import shutil

import pyarrow as pa
import pytest

import deltasql
from deltasql.delta_log.names import LOG
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.parts.spark import SparkError
from tests.readers.engines import DeltaRs, Polars, files_of, place

pytestmark = pytest.mark.timeout(600)

VERSIONS = 80


def refused(call) -> Fault | None:
    found = re.fullmatch(rf"{LOG}(\d{{20}})\.json", call.path)
    is_old = found is not None and 30 <= int(found[1]) < VERSIONS
    return Fault.BEFORE if is_old and call.verb.startswith("put") else None


def test_readers_of_a_bridged_mirror(spark, duck, tmp_path):
    settings = {"mirror.mode": "async", "mirror.lag_alert": "1ms"}
    url = f"sqlite:///{tmp_path}/lake.db"
    with deltasql.connect(url, location=str(tmp_path / "lake"), settings=settings) as lake:
        table = lake.create_table("t", pa.schema([("id", pa.int64())]))
        for number in range(VERSIONS):
            table.append(pa.table({"id": [number]}))
        inner = lake.objects(table.location)
        lake.objects.use(table.location, FaultyStore(inner, refused))
        lake.mirror.run(once=True)
        assert table.mirror.status().gap_versions > 20
        # And what follows the bridge.
        table.append(pa.table({"id": [VERSIONS]}))
        lake.mirror.run(once=True)
        root, expected = place(table), files_of(table.snapshot().adds())
        assert spark.files(root) == expected
        assert spark.count(root) == VERSIONS + 1
        assert DeltaRs().files(root, None) == expected
        assert duck.files(root, None) == expected
        assert Polars().rows(root, None).num_rows == VERSIONS + 1
        # Time travel to where the mirror has all of it, and to where it says that it has not.
        assert spark.read(root, 9)["count"] == 9
        with pytest.raises(SparkError, match="version"):
            spark.read(root, 60)
        # A copy that is taken now is a log like any other.
        shutil.copytree(root, tmp_path / "copy")
        adopted = lake.adopt(str(tmp_path / "copy"), name="adopted")
        assert adopted.count() == VERSIONS + 1
