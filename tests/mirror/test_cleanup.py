"""Log cleanup: what the spec lets go, goes; what a reader may need, stays; SQL keeps all."""

from __future__ import annotations

import os

import pytest
from deltalake import DeltaTable

from deltasql.delta_log.last_checkpoint import parse_last_checkpoint
from deltasql.delta_log.listing import list_log
from deltasql.delta_log.names import LOG, checkpoint_name, commit_name, crc_name
from deltasql.delta_log.reading import sidecars_of
from deltasql.log.retention import DAY_MS
from deltasql.mirror.validation.sampling import sample
from deltasql.testing.faulty_store import FaultyStore
from tests.mirror.conftest import SCHEMA, rows

# A midnight; commits come at noon, one a day.
MIDNIGHT = 20_000 * DAY_MS
NOON = MIDNIGHT + DAY_MS // 2


@pytest.fixture
def at(lake, monkeypatch):
    """Sets the database's clock."""

    def set_clock(now):
        monkeypatch.setattr("deltasql.store.embedded.committing.now_ms", lambda: now)
        monkeypatch.setattr(lake.store, "clock_ms", lambda: now, raising=True)

    return set_clock


@pytest.fixture
def daily(lake, at):
    """Version V is committed at noon of day V, with a checkpoint every third version."""

    def make(versions=10, **properties):
        given = {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 3 days"}
        at(NOON)
        table = lake.create_table("t", SCHEMA, properties=given | properties)
        for version in range(1, versions + 1):
            at(NOON + version * DAY_MS)
            table.append(rows(version))
            lake.mirror.run(once=True)
        return table

    return make


def test_a_dry_run_deletes_nothing(daily, log_of):
    table = daily()
    before = log_of(table).contents()
    report = table.mirror.cleanup()
    assert report.dry_run
    assert report.deleted == ()
    assert commit_name(0) in report.would_delete
    assert log_of(table).contents() == before


def test_all_from_the_newest_checkpoint_before_the_cutoff_stays_rule_53(daily, log_of):
    table = daily()
    # Noon of day 10, less three days, cut to midnight of day 7: version 6 is the newest by then.
    dry = table.mirror.cleanup()
    report = table.mirror.cleanup(dry_run=False)
    assert report.cutoff_ms == MIDNIGHT + 7 * DAY_MS
    assert report.kept_from == 6
    assert report.deleted == dry.would_delete
    log = log_of(table)
    assert log.versions() == [6, 7, 8, 9, 10]
    assert not log[checkpoint_name(3)].exists()
    assert not log[crc_name(5)].exists()
    assert log[checkpoint_name(6)].exists()
    assert log[crc_name(6)].exists()
    assert parse_last_checkpoint(log["_last_checkpoint"].read_bytes()) == 9
    assert DeltaTable(table.location).version() == 10
    assert DeltaTable(table.location, version=6).version() == 6


def test_the_cutoff_is_cut_to_midnight_rule_53(daily, at):
    table = daily()
    # A moment before the next midnight nothing has changed; at midnight a day has passed.
    at(MIDNIGHT + 13 * DAY_MS - 1)
    assert table.mirror.cleanup().kept_from == 6
    at(MIDNIGHT + 13 * DAY_MS)
    assert table.mirror.cleanup().kept_from == 9


def test_sql_keeps_everything(daily, lake):
    table = daily()
    table.mirror.cleanup(dry_run=False)
    assert [entry.version for entry in table.history()] == list(range(10, -1, -1))
    assert table.snapshot(version=2).files().num_rows == 2
    assert table.mirror.validate().ok
    assert sample(lake.store, table.objects, table.target).ok
    assert table.mirror.status().lag_versions == 0


def test_repair_does_not_restore_what_cleanup_took(daily, log_of, lake):
    table = daily()
    table.mirror.cleanup(dry_run=False)
    before = log_of(table).contents()
    report = table.mirror.repair()
    assert report.ok
    assert report.cleaned_up == 6
    assert report.restored == []
    assert log_of(table).contents() == before
    assert table.mirror.repair(version=2).restored == []
    # What is missing above the boundary was lost, even next to it.
    log_of(table)[6].unlink()
    log_of(table)[8].unlink()
    assert table.mirror.repair().restored == [6, 8]
    assert log_of(table).contents() == before
    assert table.append(rows(11)) == 11


def test_no_checkpoint_no_cleanup_rule_53(daily):
    table = daily(**{"delta.checkpointInterval": "100"})
    report = table.mirror.cleanup(dry_run=False)
    assert report.deleted == ()
    assert report.reason == "no checkpoint is that old"


def test_a_broken_checkpoint_or_one_without_its_commit_is_none(daily, log_of):
    table = daily()
    log_of(table)[checkpoint_name(6)].write_bytes(b"PAR1")
    assert table.mirror.cleanup().kept_from == 3
    log_of(table)[3].unlink()
    assert table.mirror.cleanup().kept_from is None


def test_nothing_is_old_enough_by_default(daily):
    table = daily(**{"delta.logRetentionDuration": "interval 30 days"})
    assert table.mirror.cleanup().reason == "no commit is that old"


def test_a_table_may_forbid_it(daily):
    table = daily(**{"delta.enableExpiredLogCleanup": "false"})
    assert table.mirror.cleanup(dry_run=False).deleted == ()


def test_compactions_go_with_their_start_rule_54(daily, log_of):
    table = daily()
    log = log_of(table)
    gone, kept = f"{6:020d}.{8:020d}.compacted.json", f"{7:020d}.{8:020d}.compacted.json"
    for name in (gone, kept):
        log[name].write_bytes(b"{}")
    deleted = table.mirror.cleanup(dry_run=False).deleted
    assert gone in deleted
    assert kept not in deleted


def test_sidecars_go_when_unreferenced_and_older_than_a_day_rule_54(daily, log_of, at):
    table = daily(**{"delta.checkpointPolicy": "v2"})
    log = log_of(table)
    now = NOON + 10 * DAY_MS
    sidecars = sorted(log["_sidecars"].iterdir())
    assert len(sidecars) == 3
    for path in sidecars:
        os.utime(path, (now / 1000 - 2 * 86_400,) * 2)
    stray = log["_sidecars/stray.parquet"]
    stray.write_bytes(b"")
    os.utime(stray, (now / 1000 - 3600,) * 2)
    report = table.mirror.cleanup(dry_run=False)
    gone = [name for name in report.deleted if name.startswith("_sidecars/")]
    assert len(gone) == 1
    assert stray.exists()
    assert len(list(log["_sidecars"].iterdir())) == 3
    assert table.mirror.validate().ok
    os.utime(stray, (now / 1000 - 2 * 86_400,) * 2)
    assert table.mirror.cleanup(dry_run=False).deleted == ("_sidecars/stray.parquet",)


def test_a_sidecar_stays_that_a_later_checkpoint_names_too_rule_54(daily, log_of):
    table = daily(16, **{"delta.checkpointPolicy": "v2"})
    log, now = log_of(table), NOON + 16 * DAY_MS
    named = {
        version: {
            name for item in found for top in item.names for name in sidecars_of(table.objects, top)
        }
        for version, found in list_log(table.objects).checkpoints.items()
    }
    assert named[9] < named[12]
    for path in log["_sidecars"].iterdir():
        os.utime(path, (now / 1000 - 2 * 86_400,) * 2)
    report = table.mirror.cleanup(dry_run=False)
    assert report.kept_from == 12
    left = {f"_sidecars/{path.name}" for path in log["_sidecars"].iterdir()}
    assert left == named[12] | named[15]
    assert len(DeltaTable(table.location, version=12).file_uris()) == 12
    assert table.mirror.validate(12).ok


def test_the_pointer_never_names_what_is_deleted_rule_33(daily, log_of):
    table = daily()
    log = log_of(table)
    log["_last_checkpoint"].write_bytes(b'{"size":1,"version":3}')
    table.mirror.cleanup(dry_run=False)
    assert parse_last_checkpoint(log["_last_checkpoint"].read_bytes()) == 9


def test_an_interrupted_cleanup_leaves_no_hole(daily, log_of, lake, monkeypatch):
    table = daily()
    objects = table.objects
    real, calls = objects.delete, []

    def dying(paths):
        calls.append(paths)
        if len(calls) > 5:
            raise KeyboardInterrupt
        real(paths)

    monkeypatch.setattr(type(objects), "delete", lambda _, paths: dying(paths))
    with pytest.raises(KeyboardInterrupt):
        table.mirror.cleanup(dry_run=False)
    monkeypatch.undo()
    versions = log_of(table).versions()
    assert versions == list(range(versions[0], 11))


def test_the_log_of_a_released_table_is_others_to_clean_up(daily, log_of):
    table = daily()
    table.release()
    before = log_of(table).contents()
    report = table.mirror.cleanup(dry_run=False)
    assert report.deleted == ()
    assert report.reason.startswith("released at version 11")
    assert log_of(table).contents() == before


def test_a_log_that_is_not_ours_is_not_cleaned_up(daily, log_of):
    table = daily()
    log_of(table)[6].write_bytes(b"{}")
    report = table.mirror.cleanup(dry_run=False)
    assert report.deleted == ()
    assert commit_name(6) in report.reason


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_validation_that_it_meets_misses_nothing(daily, lake, policy):
    """Except for what was lost: the boundary is looked for again."""
    table = daily(**{"delta.checkpointPolicy": policy})
    plain = lake.objects(table.location)
    lake.objects.use(table.location, _Meanwhile(plain, lambda: table.mirror.cleanup(dry_run=False)))
    assert table.mirror.validate().ok
    assert not plain.head(LOG + commit_name(5))
    lost = LOG + commit_name(8)
    lake.objects.use(table.location, _Meanwhile(plain, lambda: plain.delete([lost])))
    report = table.mirror.validate()
    assert (report.ok, report.missing_versions, report.first_drift) == (False, [8], 8)


class _Meanwhile(FaultyStore):
    """A store where something happens before the first commit file is read."""

    def __init__(self, inner, act) -> None:
        super().__init__(inner)
        self._acts = [act]

    def read(self, path, **place):
        if path.endswith(".json") and self._acts:
            self._acts.pop()()
        return super().read(path, **place)
