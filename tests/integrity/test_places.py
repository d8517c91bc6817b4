"""A table's place in SQL: what others could take, or share, is told."""

from __future__ import annotations

import pytest

from deltasql.errors import DeltaSqlError
from deltasql.objectstore import open_store
from tests.integrity.conftest import SCHEMA, damage, rows


def told(lake, name: str) -> list[str]:
    return [item.problem for item in lake.check(name).tables[name].findings]


def test_a_sound_lake_has_sound_places(lake):
    for name in ("a", "a_b", "s.a"):
        lake.create_table(name, SCHEMA).append(rows(1))
    lake.drop_table("a_b")
    assert lake.check().ok


@pytest.mark.parametrize("place", ["", "s3://bucket/a/", "file:/nowhere", "nonsense"])
def test_a_place_that_no_local_table_has(lake, place):
    table = lake.create_table("a", SCHEMA)
    table.append(rows(1))
    damage(lake, f"UPDATE dl_places SET place = '{place}'")
    (problem,) = told(lake, "a")
    assert "dl_places" in problem
    (finding,) = lake.check("a").tables["a"].findings
    assert (finding.kind.value, "dl_places" in finding.remedy) == ("place", True)


def test_a_location_that_is_none_holds_up_no_other_check(lake):
    for name in ("a", "b", "c"):
        lake.create_table(name, SCHEMA).append(rows(1))
    number = lake.table("b").table_id
    damage(lake, f"UPDATE dl_tables SET location = 'gopher://x/b' WHERE table_id = {int(number)}")
    damage(lake, "DELETE FROM dl_active_files")
    report = lake.check()
    assert {name: found.ok for name, found in report.tables.items()} == dict.fromkeys("abc", False)
    (finding,) = report.tables["b"].findings
    assert (finding.kind.value, "gopher" in finding.problem) == ("unchecked", True)
    with pytest.raises(DeltaSqlError, match="gopher"):
        lake.check("b")


def test_a_place_within_another_tables(lake):
    outer = lake.create_table("outer", SCHEMA)
    lake.create_table("other", SCHEMA)
    held, others = lake.store.held_place(outer.table_id)
    assert others == []
    damage(lake, f"UPDATE dl_places SET place = '{held}x/' WHERE table_id <> {int(outer.table_id)}")
    assert any("other is at" in problem for problem in told(lake, "outer"))
    assert any("outer is at" in problem for problem in told(lake, "other"))


def test_links_on_other_hosts_are_no_finding(lake, tmp_path):
    """What a local place resolves to depends on the host that asked."""
    lake.create_table("a", SCHEMA)
    damage(lake, "UPDATE dl_places SET place = 'file:/mnt/of/another/host/'")
    assert lake.check().ok


def test_a_bucket_is_the_same_for_every_host(lake, tmp_path):
    location = "s3://bucket/tables/a"
    (tmp_path / "bucket").mkdir()
    lake.objects.use(location, open_store((tmp_path / "bucket").as_uri()))
    lake.create_table("a", SCHEMA, location=location)
    assert lake.check().ok
    damage(lake, "UPDATE dl_places SET place = 's3://bucket/tables/b/'")
    (problem,) = told(lake, "a")
    assert "tables/b/" in problem


def test_a_table_that_gave_its_place_up(lake):
    """Released, and adopted again: its files are the new one's now."""
    table = lake.create_table("a", SCHEMA)
    table.append(rows(1))
    lake.mirror.run(once=True)
    location = table.location
    table.release()
    lake.adopt(location, "b")
    assert lake.check().ok
