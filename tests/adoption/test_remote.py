"""Adoption, release and export where the table is in a bucket."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltasql
from deltasql.errors import ValidationError
from deltasql.objectstore import open_store
from tests.parts.seaweedfs import SeaweedFs


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def test_on_s3(tmp_path: Path, sqlite_url: str, seaweedfs: SeaweedFs) -> None:
    local = tmp_path / "t"
    for number in range(3):
        write_deltalake(local, rows(number), mode="append")
    place = seaweedfs.location(f"adopted/{uuid.uuid4()}")
    bucket = open_store(place, seaweedfs.options())
    for path in sorted(local.rglob("*")):
        if path.is_file():
            bucket.put(path.relative_to(local).as_posix(), path.read_bytes())
    elsewhere = seaweedfs.location(f"exported/{uuid.uuid4()}")
    with deltasql.connect(sqlite_url, settings=seaweedfs.options()) as lake:
        table = lake.adopt(place, name="t")
        assert table.append(rows(7)) == 4
        assert ids(table) == [0, 1, 2, 7]
        assert table.mirror.validate().ok
        assert table.mirror.export(elsewhere, copy_data=True).files_copied == 4
        copy = lake.adopt(elsewhere, name="copy")
        assert copy.version == 4, "the fence came along"
        assert ids(copy) == [0, 1, 2, 7]
        refers = seaweedfs.location(f"exported/{uuid.uuid4()}")
        table.mirror.export(refers)
        assert ids(lake.adopt(refers, name="refers", allow=[place])) == [0, 1, 2, 7]
        assert table.release() == 5
        assert lake.adopt(place, name="t").version == 6


@pytest.mark.parametrize("odd", ["a b", "é%20x", "100%", "plus+"])
def test_locations_with_escapes_are_named_as_they_are(
    sqlite_url: str, seaweedfs: SeaweedFs, odd: str
) -> None:
    """By a clone, an export without copies, and the vacuum and the purge that spare their files."""
    place = seaweedfs.location(f"odd/{uuid.uuid4()}")
    with deltasql.connect(sqlite_url, location=place, settings=seaweedfs.options()) as lake:
        table = lake.create_table("t", rows().schema, location=f"{place}/{odd}/t")
        for number in range(3):
            table.append(rows(number))
        clone = table.clone("clone")
        second = clone.clone("second", location=f"{place}/{odd}/second")
        assert ids(clone) == ids(second) == [0, 1, 2]
        table.mirror.export(f"{place}/refers")
        assert ids(lake.adopt(f"{place}/refers", name="refers", allow=[place])) == [0, 1, 2]
        table.overwrite(rows(7))
        assert table.vacuum(0, dry_run=False, enforce_retention_duration=False).count == 0
        with pytest.raises(ValidationError, match="other tables name 3 of its files"):
            lake.drop_table("t", purge=True)
        assert ids(clone) == ids(second) == [0, 1, 2]


def test_places_and_purge_on_s3(sqlite_url: str, seaweedfs: SeaweedFs) -> None:
    place = seaweedfs.location(f"places/{uuid.uuid4()}")
    bucket = open_store(place, seaweedfs.options())
    with deltasql.connect(
        sqlite_url, location=f"{place}/lake", settings=seaweedfs.options()
    ) as lake:
        lake.create_table("a", rows().schema).append(rows(1))
        inner = lake.create_table("a.b", rows().schema)
        inner.append(rows(2))
        for taken in (f"{place}/lake/a", f"{place}/lake/a/x/".replace("s3://", "s3a://")):
            with pytest.raises(deltasql.LocationTakenError):
                lake.create_table("c", rows().schema, location=taken)
        with pytest.raises(deltasql.ValidationError):
            lake.create_table("c", rows().schema, location=f"{place}/lake")
        bucket.put("lake/a/photos/cat.jpg", b"meow")
        report = lake.drop_table("a", purge=True)
        assert (report.files, report.kept) == (1, ("photos/cat.jpg",))
        assert ids(inner) == [2]
        assert [item.path for item in bucket.list("lake/a")] == ["lake/a/photos/cat.jpg"]


def test_a_log_of_others_on_s3_is_not_purged(
    tmp_path: Path, sqlite_url: str, seaweedfs: SeaweedFs
) -> None:
    place = seaweedfs.location(f"places/{uuid.uuid4()}")
    bucket = open_store(f"{place}/t", seaweedfs.options())
    write_deltalake(tmp_path / "t", rows(100))
    with deltasql.connect(sqlite_url, location=place, settings=seaweedfs.options()) as lake:
        lake.create_table("t", rows().schema).append(rows(1))
        lake.drop_table("t")
        bucket.delete([item.path for item in bucket.list("")])
        for path in (tmp_path / "t").rglob("*.*"):
            bucket.put(path.relative_to(tmp_path / "t").as_posix(), path.read_bytes())
        assert "a different one" in str(lake.purge("t").kept_because)
        assert ids(lake.adopt(f"{place}/t", "theirs")) == [100]
        report = lake.recover(place.replace("s3://", "s3a://"))
        assert [found.status for found in report.tables] == ["present"]
