"""What a log store does under lock: several tables, all or nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from threading import Event, Thread

import pytest

from deltasql.errors import DeltaSqlError, ValidationError
from deltasql.spec import codec
from deltasql.spec.actions import Metadata, Txn
from deltasql.store.interface import Committed, ExactBody, TxnSeen, VersionTaken
from deltasql.testing.proposals import OpenStore, add, commit, create, live, proposal


class LockContract:
    """Heads under lock."""

    def test_two_tables_become_visible_together(self, log_store: OpenStore) -> None:
        store, reader = log_store(), log_store()
        tables = [create(store), create(store)]
        with store.locked(reversed_copy(tables)) as log:
            assert list(log.heads) == tables
            for table_id in tables:
                sent = proposal(table_id, [add("a")], transaction_id="t")
                assert isinstance(log.write(sent), Committed)
            assert [head.version for head in reader.heads(tables).values()] == [0, 0]
            assert [live(store, table_id, 9) for table_id in tables] == [[], []]
        assert [head.version for head in reader.heads(tables).values()] == [1, 1]
        assert [live(reader, table_id, 1) for table_id in tables] == [[("a", 1)]] * 2
        assert {store.history(table_id)[0].transaction_id for table_id in tables} == {"t"}

    def test_error_in_the_block_leaves_nothing(self, log_store: OpenStore) -> None:
        store = log_store()
        tables = [create(store), create(store)]

        def fail() -> None:
            with store.locked(tables) as log:
                for table_id in tables:
                    log.write(proposal(table_id, [add("a")]))
                raise FileNotFoundError("the caller's own")

        with pytest.raises(FileNotFoundError):
            fail()
        assert [head.version for head in store.heads(tables).values()] == [0, 0]
        assert [len(store.history(table_id)) for table_id in tables] == [1, 1]
        assert commit(store, tables[0], add("a")).version == 1

    def test_failed_write_can_not_be_committed(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("a", "v1")])

        def go_on() -> None:
            with store.locked([table_id]) as log, suppress(ValidationError):
                log.write(proposal(table_id, [add("b"), add("a")]))

        with pytest.raises(DeltaSqlError):
            go_on()
        assert live(store, table_id, 9) == [("a", 0)]
        assert len(store.history(table_id)) == 1

    def test_what_is_locked_can_be_read(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        sent = proposal(table_id, [add("a")])
        done = store.commit(sent)
        with store.locked([table_id, 4711]) as log:
            assert list(log.heads) == [table_id]
            assert log.heads[table_id] == store.head(table_id)
            assert log.find_commit(table_id, sent.commit_id) == done
            assert log.find_commit(table_id, "nobody's") is None
            assert log.commits(table_id, after=0) == list(store.commits(table_id, after=0))
            assert log.state(table_id) == store.state(table_id)

    def test_writes_in_a_block_see_each_other(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        with store.locked([table_id]) as log:
            first = log.write(proposal(table_id, [add("a")], expected_head=0))
            assert isinstance(first, Committed)
            assert log.heads[table_id].version == 1
            lost = log.write(proposal(table_id, [add("b")], expected_head=0))
            assert isinstance(lost, VersionTaken)
            changed = Metadata(id="m", schema_string="{}")
            second = log.write(proposal(table_id, [changed, Txn(app_id="x", version=1)]))
            assert isinstance(second, Committed)
            assert second.in_commit_timestamp > first.in_commit_timestamp
            assert log.heads[table_id].metadata_version == 2
            again = proposal(table_id, [Txn(app_id="x", version=1)], metadata_version=2)
            assert log.write(again) == TxnSeen(2)
            assert log.state(table_id).metadata_version == 2
        assert [record.version for record in store.history(table_id)] == [2, 1, 0]

    def test_large_write_under_lock(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        files = [add(f"{number:05}") for number in range(2_000)]
        with store.locked([table_id]) as log:
            stale = proposal(table_id, files, metadata_version=7)
            assert isinstance(log.write(stale), VersionTaken)
            assert isinstance(log.write(proposal(table_id, files)), Committed)
        assert live(store, table_id, 1) == [(file.path, 1) for file in files]

    @pytest.mark.parametrize("count", [1, 2_000])
    def test_a_version_from_elsewhere_keeps_its_bytes_and_time(
        self, log_store: OpenStore, count: int
    ) -> None:
        store = log_store()
        table_id = create(store)
        head = store.head(table_id)
        assert head is not None
        files = [add(f"{number:05}") for number in range(count)]
        # Bytes that we would never write, with foreign spaces and order.
        body = b'{ "commitInfo": {"operation": "theirs"} }\n' + codec.encode_commit(files)
        times = [head.last_ict + 5, head.last_ict + 1_000_000]
        with store.locked([table_id]) as log:
            for number, time in enumerate(times, start=1):
                txn = Txn(app_id="x", version=10 - number)
                # Restated files and a txn that goes down: in a foreign log, the last one counts.
                sent = proposal(table_id, [*files, txn], expected_head=number - 1)
                taken = log.take(replace(sent, body=ExactBody.of(body)), in_commit_timestamp=time)
                assert taken == Committed(number, time)
                assert log.heads[table_id].last_ict == time
        for record, time in zip(store.commits(table_id, after=0), times, strict=True):
            assert (record.body, record.in_commit_timestamp) == (body, time)
        for status in store.mirror_status(table_id, first=1, last=2):
            assert (status.status, status.digest) == ("PENDING", sha256(body).digest())
        assert [txn.txn_version for txn in store.txns(table_id, 2)] == [8]
        assert live(store, table_id, 2) == [(file.path, 2) for file in files]
        # What comes next is later, although the clock is behind.
        assert commit(store, table_id, add("z")).in_commit_timestamp == times[1] + 1

    def test_a_version_from_elsewhere_takes_its_turn(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"))
        head = store.head(table_id)
        assert head is not None
        late = proposal(table_id, [add("b")], expected_head=0, body=ExactBody.of(b"{}\n"))
        with store.locked([table_id]) as log:
            taken = log.take(late, in_commit_timestamp=head.last_ict + 1)
            assert taken == VersionTaken(head)
        assert store.head(table_id) == head

    def test_own_statements_share_the_transaction(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        with store.locked([]) as log:
            assert log.execute("CREATE TABLE app_offsets (place bigint)") == []

        def fail() -> None:
            with store.locked([table_id]) as log:
                log.execute("INSERT INTO app_offsets VALUES (1)")
                log.write(proposal(table_id, [add("a")]))
                raise KeyError("the caller's own")

        with pytest.raises(KeyError):
            fail()
        with store.locked([table_id]) as log:
            log.execute("INSERT INTO app_offsets VALUES (2)")
            log.write(proposal(table_id, [add("a")]))
        with store.locked([]) as log:
            assert log.execute("SELECT place FROM app_offsets") == [(2,)]

    def test_locked_table_waits_and_others_need_not(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        mine, theirs = create(store), create(store)
        done = {mine: Event(), theirs: Event()}

        def work(table_id: int) -> None:
            commit(other, table_id, add("a"))
            done[table_id].set()

        threads = [Thread(target=work, args=(table_id,)) for table_id in (theirs, mine)]
        with store.locked([mine]) as log:
            # An unavoidable difference: SQLite and DuckDB lock the whole database.
            apart = getattr(store, "locks_tables_apart", True)
            for thread in threads:
                thread.start()
            assert done[theirs].wait(5 if apart else 0.2) is apart
            assert not done[mine].wait(0.2)
            assert log.write(proposal(mine, [add("b")], expected_head=0)) is not None
        for thread in threads:
            thread.join(10)
        assert live(store, mine, 2) == [("a", 2), ("b", 1)]
        assert live(store, theirs, 1) == [("a", 1)]


def reversed_copy(tables: list[int]) -> list[int]:
    """Locks are taken in the order of ids, whatever order was requested."""
    return tables[::-1]
