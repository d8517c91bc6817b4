"""Kill -9 at any point of an optimize: no row is lost or doubled, and the next one goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
from tests.maintenance.dying_optimize import POINTS
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import SCHEMA, ids, live, rows
from tests.sizes import each_value


@pytest.mark.parametrize(
    ("point", "kind"),
    each_value(list(POINTS), ["sqlite", "postgres"]),
)
def test_the_next_one_goes_on(
    point: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
):
    url, location = request.getfixturevalue(f"{kind}_url"), str(tmp_path / "lake")
    with deltasql.connect(url, location=location) as lake:
        table = lake.create_table("a.t", SCHEMA)
        for number in range(4):
            table.append(rows(number))
        before = table.snapshot()
        done = subprocess.run(
            [sys.executable, "-m", "tests.maintenance.dying_optimize", url, location, point],
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        assert ids(table.scan().to_arrow()) == [0, 1, 2, 3]
        # As if ten minutes had passed.
        with lake.transaction() as tx:
            tx.sql_execute("UPDATE dl_optimize_bins SET claimed_until = '2000-01-01 00:00:00.000'")
        table.optimize()
        assert len(live(table)) == 1
        assert [row["id"] for row in seen_by_all(lake, table)] == [0, 1, 2, 3]
        with lake.transaction() as tx:
            asked = tx.sql_execute("SELECT count(*) FROM dl_optimize_bins")
        assert asked.rows == [(0,)]
        # Whoever committed it wrote down where rows went.
        assert lake.store.moved_rows(table.table_id, table.version) == [1, 1, 1, 1]
        assert ids(before.scan().to_arrow()) == [0, 1, 2, 3]
        assert lake.check().ok
