"""What rows of versions repeat of their commits is compared with the commits, and mended."""

from __future__ import annotations

import pytest

from tests.integrity.conftest import damage, make, rows

COLUMNS = {
    # Far from the times of other versions: they are unique.
    "in_commit_timestamp": "in_commit_timestamp - 1000000",
    "commit_id": "'x'",
    "committer": "'x'",
    "operation": "'x'",
    "operation_params": '\'{"x":"y"}\'',
    "transaction_id": "'x'",
    "is_blind_append": "NOT is_blind_append",
}


@pytest.mark.parametrize("version", [2, 9])
def test_columns_of_versions_are_the_commits_own(lake, version):
    table = make(lake)
    assert lake.check("t").ok
    before = [record for record in lake.store.history(table.table_id) if record.version == version]
    for name, value in COLUMNS.items():
        place = f"WHERE version = {version}"
        damage(lake, f"UPDATE dl_table_versions SET {name} = {value} {place}")
        (finding,) = lake.check("t").tables["t"].findings
        assert (finding.kind, finding.version) == ("version", version)
        assert name in finding.problem
        assert "rebuild" in finding.remedy
        lake.rebuild("t")
        assert lake.check("t").ok
        found = lake.store.history(table.table_id)
        assert [record for record in found if record.version == version] == before


def test_versions_of_a_transaction_are_sound(lake):
    table = make(lake)
    with lake.transaction() as transaction:
        transaction.table("t").append(rows(50))
    assert lake.check("t", full=True).ok
    assert table.version == 10
