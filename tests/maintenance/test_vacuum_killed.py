"""Kill -9 anywhere inside a vacuum: a rerun goes on, and no row is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
from tests.maintenance.dying import POINTS
from tests.maintenance.tables import AT_ONCE, churned, files, ids, live


@pytest.mark.parametrize("point", POINTS)
def test_a_rerun_goes_on(point: str, lake_url: str, tmp_path: Path):
    location = str(tmp_path / "lake")
    with deltasql.connect(lake_url, location=location) as lake:
        churned(lake, times=12)
    program = [sys.executable, "-m", "tests.maintenance.dying", lake_url, location, point]
    died = subprocess.run(program, check=False, capture_output=True, text=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr
    with deltasql.connect(lake_url, location=location) as lake:
        table = lake.table("a.t")
        assert ids(table.scan().to_arrow()) == [11]
        table.vacuum(**AT_ONCE, dry_run=False)
        assert files(table) == live(table)
        assert ids(table.scan().to_arrow()) == [11]
        with lake.store.locked([]) as log:
            pending = "SELECT count(*) FROM dl_vacuum_files WHERE deleted_at IS NULL"
            assert log.execute(pending)[0][0] == 0
            told = log.execute("SELECT count(DISTINCT path) FROM dl_vacuum_files")[0][0]
        assert told == 11
        assert lake.check().ok


def test_what_is_live_again_is_spared(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    """A commit of a caller's own may bring back what a vacuum that died has written down."""
    table = churned(lake)
    old = next(iter(table.snapshot(version=1).adds()))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("deltasql.maintenance.vacuuming.journal.Journal._delete", die)
        with pytest.raises(KeyboardInterrupt):
            table.vacuum(**AT_ONCE, dry_run=False)
    table.commit([old])
    table.vacuum(**AT_ONCE, dry_run=False)
    assert ids(table.scan().to_arrow()) == [0, 2]
