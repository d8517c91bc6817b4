"""`active_files_at` and its view agree with the snapshots."""

from __future__ import annotations

import deltasql
from tests.maintenance.tables import churned


def test_files_at_every_version(any_lake: deltasql.Lake):
    table = churned(any_lake)
    for version in range(table.version + 1):
        wanted = sorted(table.snapshot(version).files().column("path").to_pylist())
        view = (
            "SELECT path FROM vw_file_lifetimes WHERE table_id = {0} AND version <= {1}"
            " AND (removed_version IS NULL OR removed_version > {1}) ORDER BY path"
        )
        questions = [view]
        if any_lake.store.describe()["dialect"] != "sqlite":
            questions.append("SELECT path FROM active_files_at({0}, {1}) ORDER BY path")
        for question in questions:
            with any_lake.store.locked([]) as log:
                found = log.execute(question.format(table.table_id, version))
            assert [path for (path,) in found] == wanted
