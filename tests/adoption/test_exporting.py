"""An export goes to a place of its own: no table of the lake, nor anybody else's, loses by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasql.errors import LocationTakenError, MirrorConflictError, ValidationError


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def table(lake: Any) -> Any:
    table = lake.create_table("t", rows().schema)
    table.append(rows(1))
    return table


def test_places_that_a_table_holds_are_refused(lake: Any, table: Any) -> None:
    other = lake.create_table("other", rows().schema, properties={"mirror.mode": "off"})
    dropped = lake.create_table("dropped", rows().schema)
    lake.drop_table("dropped")
    held = [other.location, other.location + "/sub", table.location, dropped.location]
    for location in held:
        for copy_data in (False, True):
            with pytest.raises(LocationTakenError):
                table.mirror.export(location, copy_data=copy_data)
    assert not Path(other.location.removeprefix("file://"), "_delta_log").exists()


def test_the_lake_and_the_database_are_no_places_for_an_export(
    lake: Any, table: Any, tmp_path: Path
) -> None:
    for location in (lake.location, str(tmp_path), "/", ""):
        with pytest.raises(ValidationError):
            table.mirror.export(location)
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize("has_first", [True, False])
def test_another_log_is_not_written_into(table: Any, tmp_path: Path, has_first: bool) -> None:
    place = tmp_path / "foreign"
    for number in range(2):
        write_deltalake(place, rows(100 + number), mode="append")
    if not has_first:
        DeltaTable(place).create_checkpoint()
        (place / "_delta_log" / f"{0:020d}.json").unlink()
    names = {path.name for path in (place / "_delta_log").iterdir()}
    with pytest.raises(MirrorConflictError, match="another table's log"):
        table.mirror.export(str(place))
    assert {path.name for path in (place / "_delta_log").iterdir()} == names


@pytest.mark.parametrize("copy_data", [True, False])
def test_an_export_may_be_brought_up_to_date(table: Any, tmp_path: Path, copy_data: bool) -> None:
    place = tmp_path / "copy"
    table.mirror.export(str(place), copy_data=copy_data)
    table.append(rows(2))
    table.mirror.export(str(place), copy_data=copy_data)
    assert DeltaTable(place).version() == 2
