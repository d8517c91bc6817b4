"""Leases: who may do the mirror's work on a table, and what a holder may write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import LONGEST_LEASE, Lease, Look, Totals, Work
from deltasql.testing.proposals import OpenStore, add, commit, create

LONG = 30.0
# A lease without duration ends at once, so that no test has to wait.
OVER = 0.0


def take(store: LogStore, table_id: int, work: Work = Work.COMMITS, seconds: float = LONG) -> Lease:
    """A lease that nothing prevents."""
    lease = store.acquire_lease(table_id, "holder", seconds, work)
    assert lease is not None
    return lease


def _writes(store: LogStore, lease: Lease) -> list[bool]:
    """The outcome of everything that a holder writes."""
    return [
        store.renew_lease(lease, LONG),
        store.record_mirrored(lease, Totals(0, 0, 0), first=0, interval=10, seconds=LONG),
        store.record_failure(lease, 0, "told by who held it", is_final=True),
        store.record_checkpoint(lease, 0),
    ]


class LeaseContract:
    """What `MirrorLog` promises about leases."""

    def test_one_holder_at_a_time(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        table_id, neighbour = create(store), create(store)
        held = take(store, table_id)
        assert (held.table_id, held.holder, held.work) == (table_id, "holder", Work.COMMITS)
        assert held.totals is None
        assert other.acquire_lease(table_id, "other", LONG) is None
        assert store.acquire_lease(table_id, "holder", LONG) is None, "not even its own holder"
        take(other, table_id, Work.CHECKPOINTS)
        take(other, neighbour)
        other.release_lease(held)
        assert take(store, table_id).token > held.token

    def test_of_many_at_once_one_gets_it(self, log_store: OpenStore) -> None:
        stores = [log_store() for _ in range(4)]
        table_id = create(stores[0])
        together = Barrier(len(stores))

        def race(number: int) -> Lease | None:
            together.wait(20)
            return stores[number].acquire_lease(table_id, f"holder {number}", LONG)

        for _ in range(5):
            with ThreadPoolExecutor(len(stores)) as pool:
                (winner,) = filter(None, pool.map(race, range(len(stores))))
            stores[0].release_lease(winner)

    def test_who_holds_it_writes_and_stays(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        lease = take(store, table_id)
        assert all(_writes(store, lease))
        assert log_store().acquire_lease(table_id, "other", LONG) is None

    def test_who_lost_it_writes_nothing(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        before = store.mirror_status(table_id, first=0, last=0)
        lost = take(store, table_id, seconds=OVER)
        assert not any(_writes(store, lost)), "it has ended, and nobody took it over"
        now = take(store, table_id)
        assert not any(_writes(store, lost)), "it was taken over"
        store.release_lease(lost)
        assert store.acquire_lease(table_id, "other", LONG) is None, "it was not theirs to give"
        store.release_lease(now)
        assert not any(_writes(store, now)), "it was given back"
        assert store.mirror_status(table_id, first=0, last=0) == before

    def test_writing_extends_it(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        lease = take(store, table_id)
        assert store.renew_lease(lease, OVER)
        assert not store.renew_lease(lease, LONG)
        lease = take(store, table_id)
        none = Totals(0, 0, 0)
        assert store.record_mirrored(lease, none, first=0, interval=10, seconds=OVER)
        assert not store.renew_lease(lease, LONG)

    def test_one_that_is_too_long_is_not_believed(self, log_store: OpenStore) -> None:
        """It was granted before the clock went back."""
        store = log_store()
        table_id = create(store)
        take(store, table_id, seconds=LONGEST_LEASE * 60)
        assert store.look(table_id, 0).is_free
        take(store, table_id, seconds=LONGEST_LEASE - 1)
        assert store.acquire_lease(table_id, "other", LONG) is None

    def test_the_next_holder_knows_the_totals(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, actions=[add("a")])
        commit(store, table_id, add("b"))
        totals = Totals(1, 2, 2**40)
        lease = take(store, table_id)
        assert store.record_mirrored(lease, totals, first=0, interval=10, seconds=LONG)
        store.release_lease(lease)
        assert take(log_store(), table_id).totals == totals
        assert take(store, table_id, Work.CHECKPOINTS).totals is None

    def test_a_look_sees_whether_it_is_mirrored_and_may_be(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        assert store.look(table_id, 0) == Look(is_mirrored=False, is_free=True)
        checkpoints = take(store, table_id, Work.CHECKPOINTS)
        assert store.look(table_id, 0).is_free, "checkpoints hold up no commit file"
        lease = take(store, table_id)
        assert store.look(table_id, 0) == Look(is_mirrored=False, is_free=False)
        assert store.record_mirrored(lease, Totals(0, 0, 0), first=0, interval=1, seconds=LONG)
        assert store.look(table_id, 0) == Look(is_mirrored=True, is_free=False)
        store.release_lease(lease)
        store.release_lease(checkpoints)
        assert store.look(table_id, 0) == Look(is_mirrored=True, is_free=True)
        assert store.look(table_id, 7) == Look(is_mirrored=False, is_free=True)
