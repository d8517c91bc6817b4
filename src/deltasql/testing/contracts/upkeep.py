"""Upkeep: who is at work, which versions are held, and what vacuum records."""

from __future__ import annotations

import uuid

import pyarrow as pa

from deltasql.spec.actions import CdcFile
from deltasql.store.interface import LogStore
from deltasql.store.upkeep.interface import Hold, JournalRow, Kind, PendingDelete
from deltasql.testing.proposals import OpenStore, add, commit, create, remove

# A pin without duration expires at once, so that no test has to wait.
OVER = -1.0


def _paths(batches: pa.RecordBatchReader) -> list[str]:
    return sorted(batches.read_all().column("path").to_pylist())


def _begin(store: LogStore, *, age: float = 0.0, writing: float = 0.0) -> str:
    session_id = str(uuid.uuid4())
    store.begin_session(
        session_id, kind="python", host="h", pid=1, committer="me", age=age, writing=writing
    )
    return session_id


def _begin_vacuum(store: LogStore, table_id: int) -> str:
    vacuum_id = str(uuid.uuid4())
    store.begin_vacuum(vacuum_id, table_id, committer=None, host="h", retention_ms=1, kept_since=0)
    return vacuum_id


class UpkeepContract:
    """What `UpkeepLog` promises."""

    def test_sessions_come_beat_and_go(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        session_id = _begin(store, age=60.0, writing=30.0)
        (found,) = other.sessions()
        assert (found.session_id, found.kind, found.pid, found.is_alive) == (
            session_id,
            "python",
            1,
            True,
        )
        assert found.writing_since is not None
        assert found.started_at < found.writing_since < found.heartbeat_at
        writers = other.writers()
        assert writers.writing_since == found.writing_since == writers.may_have_written_since
        assert store.beat(session_id, writing=None)
        writers = other.writers()
        assert writers.writing_since is None, "nothing is under way that is known of"
        assert writers.may_have_written_since is not None, "and something may have begun since"
        assert found.heartbeat_at <= writers.may_have_written_since <= writers.now
        store.sweep()
        assert other.sessions(), "who was heard of lives"
        store.end_session(session_id)
        assert other.sessions() == []
        assert not store.beat(session_id, writing=1.0)
        assert other.writers().may_have_written_since is None

    def test_pins_hold_until_they_end(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        table_id = create(store, "contract.held")
        assert store.pin("long", table_id, 0, seconds=60.0, reason="read", session_id="s")
        assert store.pin("over", table_id, 0, seconds=OVER, reason="read")
        (found,) = other.pins()
        assert (found.pin_id, found.table, found.version, found.reason, found.session_id) == (
            "long",
            "contract.held",
            0,
            "read",
            "s",
        )
        with other.vacuuming([table_id]) as log:
            assert log.pins(table_id) == [Hold(0)]
        assert other.renew_pin("long", seconds=120.0)
        assert store.pins()[0].expires_at > found.expires_at
        store.sweep()
        assert not store.renew_pin("over", seconds=60.0), "it was swept"
        store.unpin("long")
        assert other.pins() == []
        assert not store.pin("late", table_id + 1_000, 0, seconds=1.0, reason="no such table")

    def test_dead_files_are_told_by_their_horizon(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, other = create(store), create(store)
        commit(store, table_id, add("a.parquet", dv="v1"), add("b.parquet"))
        changes = CdcFile(path="_change_data/c.parquet", partition_values={}, size=3)
        gone = commit(store, table_id, remove("a.parquet", dv="v1"), changes)
        elsewhere = add("memory:///elsewhere/x.parquet")
        commit(store, other, elsewhere)
        assert _paths(store.dead_files(table_id, horizon=gone.version - 1)) == []
        assert _paths(store.dead_files(table_id, horizon=gone.version)) == ["a.parquet"]
        assert store.vector_rows(table_id).read_all().num_rows == 1
        assert _paths(store.change_rows(table_id)) == ["_change_data/c.parquet"]
        lives = store.file_lives(table_id).read_all().to_pylist()
        (life,) = [item for item in lives if item["path"] == "a.parquet"]
        assert life["removed_version"] == gone.version
        assert [item["path"] for item in lives if item["is_change"]] == ["_change_data/c.parquet"]
        assert any(item["deletion_vector"] for item in lives)
        assert "memory:///elsewhere/x.parquet" in _paths(store.absolute_files())
        assert "memory:///elsewhere/x.parquet" not in _paths(store.absolute_files(but=other))
        assert store.same_place(table_id, "memory:///nowhere") == {table_id}
        commit(store, other, add("a%20b.parquet"))
        assert _paths(store.encoded_paths(other)) == ["a%20b.parquet"]
        assert _paths(store.encoded_paths(table_id)) == []

    def test_what_is_written_down_stays_until_it_is_marked(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        table_id = create(store)
        commit(store, table_id, add("a.parquet"))
        gone = commit(store, table_id, remove("a.parquet"))
        vector = JournalRow("deletion_vector_x.bin", Kind.VECTOR, 0)
        vacuum_id = _begin_vacuum(store, table_id)
        row = JournalRow("a.parquet", Kind.DEAD, 7)
        with store.vacuuming([table_id]) as log:
            assert log.heads[table_id].version == gone.version
            assert log.read_only_reason(table_id) is None
            assert log.writers().writing_since is None
            assert [item.version for item in log.commits(table_id, after=0)] == [1, 2]
            assert log.known_files(table_id, ["a.parquet"], after=gone.version) == set()
            log.journal(vacuum_id, 0, table_id, [row, vector])
            log.journal(vacuum_id, 1, table_id, [JournalRow("b.parquet", Kind.ORPHAN)])
            assert not log.spare(vacuum_id, {"b.parquet"}, seconds=60), "it was recorded just now"
            assert log.spare(vacuum_id, {"b.parquet"}, seconds=0)
            log.record_again(vacuum_id, 0)
        assert sorted(other.pending_deletes(table_id), key=lambda item: item.row.path) == [
            PendingDelete(vacuum_id, 0, row),
            PendingDelete(vacuum_id, 0, vector),
        ]
        assert _paths(other.deleted_paths(table_id)) == [], "not gone yet"
        other.mark_deleted(vacuum_id, 0)
        store.end_vacuum(vacuum_id)
        assert store.pending_deletes(table_id) == []
        assert _paths(store.dead_files(table_id, horizon=gone.version)) == []
        assert _paths(store.deleted_paths(table_id)) == ["deletion_vector_x.bin"]

    def test_what_a_failed_block_wrote_down_does_not_count(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        vacuum_id = _begin_vacuum(store, table_id)
        try:
            with store.vacuuming([table_id]) as log:
                log.journal(vacuum_id, 0, table_id, [JournalRow("a", Kind.ORPHAN)])
                raise RuntimeError
        except RuntimeError:
            pass
        assert store.pending_deletes(table_id) == []
