"""What a log store does with a commit, and what it refuses."""

from __future__ import annotations

import time
from hashlib import sha256
from threading import Thread

import pytest

from deltasql.errors import ValidationError
from deltasql.spec.actions import AddFile, Txn
from deltasql.store.interface import Committed, TxnSeen, VersionTaken
from deltasql.testing.proposals import OpenStore, add, commit, create, live, proposal, remove

MANY = 2_500


class CommitContract:
    """Commits, one at a time and many at once."""

    def test_one_file(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        before = time.time_ns() // 1_000_000
        done = commit(store, table_id, add("a"))
        assert done.version == 1
        # The database's clock may be another machine's.
        assert abs(done.in_commit_timestamp - before) < 60_000
        assert live(log_store(), table_id, 1) == [("a", 1)]
        assert live(store, table_id, 0) == []

    def test_no_file(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        assert commit(store, table_id).version == 1
        assert live(store, table_id, 1) == []

    def test_many_files(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        names = [f"part-{number:05}" for number in range(MANY)]
        done = commit(store, table_id, *map(add, names))
        assert live(store, table_id, done.version) == [(name, 1) for name in names]
        commit(store, table_id, *map(remove, names[: MANY // 2]))
        assert live(store, table_id, 2) == [(name, 1) for name in names[MANY // 2 :]]
        assert len(live(store, table_id, 1)) == MANY

    def test_many_files_some_of_them_live_already(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("part-7"), add("other")])
        names = sorted(f"part-{number}" for number in range(MANY))
        commit(store, table_id, *map(add, names))
        expected = [("other", 0), *((name, 1) for name in names)]
        assert live(store, table_id, 1) == sorted(expected)
        assert live(store, table_id, 0) == [("other", 0), ("part-7", 0)]

    def test_many_files_one_of_them_live_under_another_vector(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("part-7", "v1")])
        bulk = proposal(table_id, [add(f"part-{number}") for number in range(MANY)])
        with pytest.raises(ValidationError, match="part-7"):
            store.commit(bulk)
        assert live(store, table_id, 9) == [("part-7", 0)]

    def test_pinned_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"), expected_head=0)
        lost = store.commit(proposal(table_id, [add("b")], expected_head=0))
        assert isinstance(lost, VersionTaken)
        assert lost.head.version == 1
        ahead = store.commit(proposal(table_id, [add("b")], expected_head=2))
        assert isinstance(ahead, VersionTaken)
        assert live(store, table_id, 1) == [("a", 1)]
        assert len(store.history(table_id)) == 2

    def test_retry_answers_the_same_and_writes_once(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        sent = proposal(table_id, [add("a")], expected_head=0)
        first = store.commit(sent)
        commit(store, table_id, add("b"))
        assert store.commit(sent, is_retry=True) == first
        assert store.find_commit(table_id, sent.commit_id) == first
        assert store.find_commit(table_id, "nobody's") is None
        # One that never arrived is written by its retry.
        lost = proposal(table_id, [add("c")])
        assert isinstance(store.commit(lost, is_retry=True), Committed)
        assert len(store.history(table_id)) == 4

    def test_application_transaction_is_written_once(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"), Txn(app_id="app", version=5))
        for version in (5, 4):
            again = proposal(table_id, [add("b"), Txn(app_id="app", version=version)])
            assert store.commit(again) == TxnSeen(1)
        commit(store, table_id, add("b"), Txn(app_id="other", version=1))
        commit(store, table_id, add("c"), Txn(app_id="app", version=6))
        both = [Txn(app_id="app", version=7), Txn(app_id="other", version=1)]
        assert store.commit(proposal(table_id, both)) == TxnSeen(2)
        # A retry gets its own version, not word of an earlier transaction.
        sent = proposal(table_id, [Txn(app_id="app", version=7)])
        assert store.commit(sent) == store.commit(sent, is_retry=True)
        assert live(store, table_id, 4) == [("a", 1), ("b", 2), ("c", 3)]

    def test_restated_file_keeps_its_past(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("a", size=1), add("b")])
        commit(store, table_id, add("a", size=2), add("c"))
        sizes = []
        for version in (0, 1):
            found = store.files(table_id, version).read_all().to_pylist()
            sizes.append({file["path"]: file["size"] for file in found})
        assert sizes == [{"a": 1, "b": 10}, {"a": 2, "b": 10, "c": 10}]

    def test_removed_file_comes_back(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("a")])
        commit(store, table_id, remove("a"))
        commit(store, table_id, add("a"))
        commit(store, table_id, remove("a"), add("a"))
        versions = [live(store, table_id, version) for version in range(4)]
        assert versions == [[("a", 0)], [], [("a", 2)], [("a", 3)]]

    def test_vector_replaced_in_one_commit(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("a")])
        commit(store, table_id, remove("a"), add("a", "v1"))
        commit(store, table_id, remove("a", "v1"), add("a", "v2"))
        assert [live(store, table_id, version) for version in range(3)] == [
            [("a", 0)],
            [("a", 1)],
            [("a", 2)],
        ]

    @pytest.mark.parametrize(("old", "new"), [("", "v1"), ("v1", ""), ("v1", "v2")])
    def test_path_live_under_another_vector_is_refused(
        self, log_store: OpenStore, old: str, new: str
    ) -> None:
        store = log_store()
        table_id = create(store, None, [add("a", old)])
        with pytest.raises(ValidationError, match="deletion vector"):
            store.commit(proposal(table_id, [add("b"), add("a", new)]))
        head = store.head(table_id)
        assert head is not None
        assert head.version == 0
        assert live(store, table_id, 1) == [("a", 0)]
        assert commit(store, table_id, add("b")).version == 1

    def test_remove_of_an_unknown_file_is_kept(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("a", "v1")])
        commit(store, table_id, remove("never"), remove("a"), remove("a", "v2"))
        assert live(store, table_id, 1) == [("a", 0)]
        with store.locked([]) as log:
            removes = log.execute(
                "SELECT path, version FROM dl_remove_files ORDER BY path, deletion_vector"
            )
            assert sorted(removes) == [("a", 1), ("a", 1), ("never", 1)]
            unknown = log.execute("SELECT count(*) FROM dl_dead_files WHERE version IS NULL")
            assert unknown == [(3,)]

    def test_times_grow_strictly(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        times = [commit(store, table_id).in_commit_timestamp for _ in range(20)]
        assert times == sorted(set(times))
        # After a clock was set back, the table's last time is in the future.
        with store.locked([table_id]) as log:
            log.execute("UPDATE dl_table_heads SET last_ict = last_ict + 3600000")
        for later in (1, 2, 3):
            done = commit(store, table_id)
            assert done.in_commit_timestamp == times[-1] + 3_600_000 + later

    def test_body_and_digest(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        large = [add(f"{number}-" + "x" * 1_000) for number in range(200)]
        sent = [proposal(table_id, actions) for actions in ([], [add("a")], large)]
        expected = []
        for item in sent:
            done = store.commit(item)
            assert isinstance(done, Committed)
            expected.append(item.body.fill(done.in_commit_timestamp))
        commits = list(store.commits(table_id, after=0))
        assert [record.body for record in commits] == expected
        digests = [record.digest for record in reversed(store.history(table_id))]
        assert digests[1:] == [sha256(body).digest() for body in expected]

    def test_every_version_waits_for_its_mirror(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"))
        with store.locked([table_id]) as log:
            found = log.execute(
                "SELECT s.table_id, s.version, s.status, s.retry_count"
                " FROM dl_mirror_status AS s JOIN dl_table_versions AS v"
                " ON v.table_id = s.table_id AND v.version = s.version AND v.digest = s.digest"
                " ORDER BY s.version"
            )
        assert found == [(table_id, 0, "PENDING", 0), (table_id, 1, "PENDING", 0)]

    def test_threads_leave_no_gap(self, log_store: OpenStore) -> None:
        stores = [log_store(), log_store()]
        table_id = create(stores[0])
        done: list[tuple[int, str]] = []

        def work(number: int) -> None:
            for turn in range(25):
                name = f"{number}-{turn}"
                version = commit(stores[number % 2], table_id, _file(name)).version
                done.append((version, name))

        threads = [Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(version for version, _ in done) == list(range(1, 201))
        assert live(stores[0], table_id, 200) == sorted((name, at) for at, name in done)
        times = [record.in_commit_timestamp for record in stores[0].history(table_id)]
        assert times == sorted(set(times), reverse=True)


def _file(name: str) -> AddFile:
    return add(name, partition_values={"p": name[0]})
