"""Checkpoints in the mirror that list other files, and repair of one version alone."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from deltasql.delta_log.names import checkpoint_name, commit_name, crc_name
from deltasql.errors import VersionNotFoundError
from tests.integrity.conftest import checkpoint, ids, log_folder, make, mirrored, rows


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_wrong_checkpoint_is_found_and_replaced(lake, policy):
    table = make(lake, **{"delta.checkpointPolicy": policy})
    wanted = ids(table)
    older, newer = sorted(log_folder(table).glob("*.checkpoint.*"))
    wrong = older.read_bytes()
    newer.write_bytes(wrong)
    (finding,) = lake.check("t").tables["t"].findings
    assert (finding.kind, finding.version, finding.path) == ("checkpoint", 8, newer.name)
    assert "repair" in finding.remedy
    assert lake.check("t").tables["t"].rows_ok
    report = table.mirror.repair()
    assert report.ok
    assert report.checkpoints == [8]
    assert log_folder(table).joinpath(report.moved_aside[newer.name]).read_bytes() == wrong
    assert lake.check("t", full=True).ok
    assert table.mirror.validate().ok
    assert len(DeltaTable(table.location).file_uris()) == len(wanted)


def test_a_broken_checkpoint_is_found(lake):
    table = make(lake)
    checkpoint(table, 4).write_bytes(b"")
    (finding,) = lake.check("t").tables["t"].findings
    assert (finding.kind, finding.version) == ("checkpoint", 4)


def test_repair_of_a_version_touches_that_one_alone(lake):
    """With force too: strangers' objects of other versions, later ones, gaps, pending work."""
    table = make(lake)
    folder = log_folder(table)
    whole = mirrored(table)
    for version in (3, 5):
        folder.joinpath(commit_name(version)).write_bytes(b"garbage")
    folder.joinpath(commit_name(6)).unlink()
    folder.joinpath(commit_name(11)).write_bytes(b"ahead")
    folder.joinpath(commit_name(12)).write_bytes(b"ahead")
    folder.joinpath(checkpoint_name(4)).unlink()
    folder.joinpath("_last_checkpoint").write_bytes(b"{}")
    table.mirror.pause()
    table.append(rows(70))
    before = mirrored(table)
    report = table.mirror.repair(5, force=True)
    assert report.ok
    assert report.restored == [5]
    after = mirrored(table)
    # Its checksum file goes with it, and is written again as it was.
    assert sorted(report.moved_aside) == [crc_name(5), commit_name(5)]
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    assert changed == {commit_name(5), *report.moved_aside.values()}
    assert after[commit_name(5)] == whole[commit_name(5)]
    # A version that only the mirror has goes alone, too.
    assert table.mirror.repair(11).ahead == [11]
    report = table.mirror.repair(11, force=True)
    assert list(report.moved_aside) == [commit_name(11)]
    assert commit_name(12) in mirrored(table)
    with pytest.raises(VersionNotFoundError):
        table.mirror.repair(13, force=True)
    assert commit_name(12) in mirrored(table)
    # Its own checkpoint, and nobody else's.
    folder.joinpath("_last_checkpoint").write_bytes(whole["_last_checkpoint"])
    report = table.mirror.repair(4)
    assert report.checkpoints == [4]
    assert mirrored(table)["_last_checkpoint"] == whole["_last_checkpoint"]
    assert commit_name(10) not in mirrored(table)
    assert table.mirror.repair(10).mirrored == 1
    assert {commit_name(10), crc_name(10)} <= mirrored(table).keys()
    assert commit_name(6) not in mirrored(table)
