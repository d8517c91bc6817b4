"""Retention: versions that leave the history, and later their rows."""

from __future__ import annotations

import pytest

from deltasql.errors import VersionNotFoundError
from deltasql.log.file_sums import FileSums
from deltasql.spec.actions import CdcFile, Txn
from deltasql.store.checking.interface import Origin, TrustedVersion
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Work
from deltasql.store.upkeep.interface import WORKER, JournalRow, Kind
from deltasql.testing.contracts.jobs import OVER
from deltasql.testing.contracts.leases import LONG, take
from deltasql.testing.proposals import OpenStore, add, commit, create, remove

LATE = 2**50
CHANGES = "_change_data/c.parquet"


def _history(store: LogStore) -> int:
    """A table with versions 0 to 4: with a removed file and a replaced txn."""
    table_id = create(store, actions=[add("a.parquet"), add("b.parquet")])
    commit(store, table_id, remove("a.parquet"), Txn(app_id="app", version=1, last_updated=None))
    changes = CdcFile(path=CHANGES, partition_values={}, size=3)
    commit(store, table_id, remove("b.parquet"), changes)
    commit(store, table_id, add("c.parquet"), Txn(app_id="app", version=2, last_updated=None))
    commit(store, table_id, add("d.parquet"))
    return table_id


def _checkpoint(store: LogStore, table_id: int, version: int, *, upto: int) -> None:
    lease = take(store, table_id)
    totals = store.totals(table_id, upto)
    assert store.record_mirrored(lease, totals, first=0, interval=version, seconds=LONG)
    store.release_lease(lease)
    lease = take(store, table_id, Work.CHECKPOINTS)
    assert store.record_checkpoint(lease, version)
    store.release_lease(lease)


def _advance(store: LogStore, table_id: int, version: int, *, before: int = 0) -> bool:
    first = TrustedVersion(table_id, Origin.ADOPTED, version, FileSums(1, 2))
    return store.advance_horizon(first, committer="me", host="h", before=before)


class ExpiryContract:
    """What `ExpiryLog` promises."""

    def test_the_horizon_is_a_checkpoint_of_a_whole_mirror(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        assert store.horizon(table_id, upto=4) is None
        _checkpoint(store, table_id, 3, upto=4)
        assert (store.horizon(table_id, upto=4), store.horizon(table_id, upto=2)) == (3, None)
        assert store.forget_mirrored(table_id, first=2, last=2) == 1
        assert store.horizon(table_id, upto=4) is None

    def test_what_expired_is_not_read(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        table_id = _history(store)
        store.trust(TrustedVersion(table_id, Origin.CHECKPOINT, 4, FileSums()))
        assert not _advance(store, table_id, 3, before=1), "it is not where it was seen"
        assert store.pin("held", table_id, 1, seconds=60.0, reason="read")
        assert not _advance(store, table_id, 3), "an older one is held"
        store.unpin("held")
        assert _advance(store, table_id, 3)
        head = other.head(table_id)
        assert head is not None
        assert (head.earliest_version, head.version) == (3, 4)
        assert other.state(table_id, 2) is None
        assert other.state(table_id, 3) is not None
        with pytest.raises(VersionNotFoundError):
            other.files(table_id, 2).read_all()
        assert other.files(table_id, 3).read_all().column("path").to_pylist() == ["c.parquet"]
        assert [record.txn_version for record in other.txns(table_id, 4)] == [2]
        assert len(list(other.other_rows(table_id, "txns", 4))) == 1
        assert [(item.origin, item.version) for item in other.trusted(table_id)] == [
            (Origin.ADOPTED, 3)
        ]
        (told,) = other.expirations()
        assert (told.table_id, told.first_version, told.horizon) == (table_id, 0, 3)
        assert (told.committer, told.host, told.ended_at) == ("me", "h", None)

    def test_rows_go_after_it(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, neighbour = _history(store), _history(store)
        assert store.drop_versions(table_id, most=10) == 0, "nothing has expired"
        assert _advance(store, table_id, 3)
        assert store.drop_versions(table_id, most=2) == 2
        assert [record.version for record in store.history(table_id)] == [4, 3, 2]
        assert store.drop_versions(table_id, most=2) == 1
        assert store.drop_versions(table_id, most=2) == 0
        statuses = store.mirror_status(table_id, first=0, last=9)
        assert [item.version for item in statuses] == [3, 4]
        assert store.fill_status(table_id) == 0
        store.end_expiration(table_id)
        assert [item.ended_at is not None for item in store.expirations()] == [True]
        assert len(store.history(neighbour)) == 5

    def test_files_keep_their_rows_until_vacuum_has_deleted_them(
        self, log_store: OpenStore
    ) -> None:
        store = log_store()
        table_id = _history(store)
        assert _advance(store, table_id, 3)
        assert store.drop_files(table_id, after=-1, most=1, tombstones=LATE) == (1, 0)
        assert store.drop_files(table_id, after=1, most=9, tombstones=LATE) == (10, 0)
        assert store.drop_files(table_id, after=10, most=9, tombstones=LATE) is None
        assert store.drop_changes(table_id) == 0
        store.begin_vacuum("v", table_id, committer=None, host="h", retention_ms=0, kept_since=0)
        gone = [JournalRow("a.parquet", Kind.DEAD), JournalRow(CHANGES, Kind.CHANGE)]
        with store.vacuuming([table_id]) as log:
            log.journal("v", 0, table_id, gone)
        assert store.drop_files(table_id, after=-1, most=9, tombstones=LATE) == (9, 0)
        store.mark_deleted("v", 0)
        assert store.drop_files(table_id, after=-1, most=9, tombstones=-1) == (9, 0)
        assert store.drop_files(table_id, after=-1, most=9, tombstones=LATE) == (9, 1)
        assert store.drop_changes(table_id) == 1
        assert store.drop_files(table_id, after=1, most=9, tombstones=LATE) == (10, 0)

    def test_what_was_deleted_is_told_for_a_while(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        assert _advance(store, table_id, 3)
        kinds = [("a.parquet", Kind.DEAD), ("o.parquet", Kind.ORPHAN), (CHANGES, Kind.CHANGE)]
        for vacuum_id, names in ("v", kinds), ("w", [("p.parquet", Kind.ORPHAN)]):
            store.begin_vacuum(
                vacuum_id, table_id, committer=None, host="h", retention_ms=0, kept_since=0
            )
            with store.vacuuming([table_id]) as log:
                log.journal(vacuum_id, 0, table_id, [JournalRow(*item) for item in names])
        assert store.drop_deletions(table_id, seconds=OVER, most=9) == 0, "not deleted yet"
        store.mark_deleted("v", 0)
        assert store.drop_deletions(table_id, seconds=60.0, most=9) == 0, "a moment ago"
        assert store.drop_deletions(table_id, seconds=OVER, most=9) == 1, "the orphan"
        assert store.drop_files(table_id, after=-1, most=9, tombstones=LATE) == (9, 1)
        assert store.drop_deletions(table_id, seconds=OVER, most=9) == 1, "whose row is gone"
        assert store.drop_deletions(table_id, seconds=OVER, most=9) == 0, "changes of a version"
        assert [item.row.path for item in store.pending_deletes(table_id)] == ["p.parquet"]

    def test_a_worker_is_known_for_a_while(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        store.begin_session(
            "s", kind="python", host="h", pid=1, committer=None, age=0.0, writing=0.0
        )
        assert not other.has_worker()
        store.begin_session("w", kind=WORKER, host="h", pid=1, committer=None, age=0.0, writing=0.0)
        assert other.has_worker()
        store.end_session("w")
        assert not other.has_worker()
