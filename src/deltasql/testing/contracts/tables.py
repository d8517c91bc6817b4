"""What a log store does with tables: create, rename, drop, purge."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from deltasql.errors import DeltaSqlError, LocationTakenError, TableNotFoundError
from deltasql.spec.actions import Metadata, Protocol
from deltasql.spec.codec import loads
from deltasql.store.claims import Ask
from deltasql.store.interface import LogStore, NameTaken, NoTable, VersionTaken
from deltasql.store.upkeep.naming import NamingQueries
from deltasql.testing.proposals import (
    METADATA,
    PROTOCOL,
    OpenStore,
    add,
    commit,
    create,
    live,
    proposal,
    remove,
)


class TableContract:
    """Tables and their states."""

    def test_created_table_is_there_with_its_version_zero(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "sales.orders", [add("a")])
        for reader in (store, log_store()):
            table = reader.table("sales.orders")
            assert table is not None
            assert (table.table_id, table.location) == (table_id, "memory:///sales.orders")
            assert table.read_only_reason is None
            assert table.mirror_paused is False
            assert table in reader.tables()
            head = reader.head(table_id)
            assert head is not None
            assert (head.version, head.metadata_version, head.protocol_version) == (0, 0, 0)
            assert live(reader, table_id, 0) == [("a", 0)]

    def test_unknown_tables_are_none(self, log_store: OpenStore) -> None:
        store = log_store()
        assert store.table("nobody") is None
        assert store.head(4711) is None
        assert store.state(4711) is None
        assert store.state(4711, 0) is None
        assert store.history(4711) == []
        assert store.version_at(4711, 2**40) is None
        assert store.commit(proposal(4711, [add("a")])) == NoTable()

    def test_sources_are_kept(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "a.t", location="memory:///place")
        assert store.sources_of(table_id) == []
        store.allow_sources(table_id, ["memory:///x/"], instead=False)
        store.allow_sources(table_id, ["memory:///x/", "memory:///y/"], instead=False)
        assert sorted(log_store().sources_of(table_id)) == ["memory:///x/", "memory:///y/"]
        assert sorted(store.sources_at("memory:///place")) == ["memory:///x/", "memory:///y/"]
        assert store.sources_at("memory:///elsewhere") == []
        store.allow_sources(table_id, ["memory:///z/"], instead=True)
        assert store.sources_of(table_id) == ["memory:///z/"]

    def test_a_place_is_held(self, log_store: OpenStore) -> None:
        store = log_store()
        assert store.held_place(4711) == (None, [])
        table_id = create(store, "a.t", location="memory:///place/")
        create(store, "a.u", location="memory:///places")
        assert store.held_place(table_id) == ("memory:///place/", [])

    def test_a_dropped_table_comes_back(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "a.t", [add("a")])
        commit(store, table_id, add("b"))
        assert not store.undrop_table(table_id, "a.t"), "it is there"
        assert store.drop_table(table_id)
        assert store.undrop_table(table_id, "a.back")
        record, version = store.newest("a.back") or (None, None)
        assert record is not None
        assert (record.table_id, version) == (table_id, 1)
        assert [path for path, _ in live(store, table_id, 1)] == ["a", "b"]
        assert store.role() is None or store.role()

    def test_name_is_taken_once(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "a.b")
        second = store.create_table("a.b", "memory:///x", proposal(0, [METADATA, PROTOCOL]))
        assert second == NameTaken()
        found = store.table("a.b")
        assert found is not None
        assert found.table_id == table_id

    def test_rename(self, log_store: OpenStore) -> None:
        store = log_store()
        first, second = create(store, "a.first"), create(store, "a.second")
        assert store.rename_table(first, "a.second") == NameTaken()
        assert store.rename_table(first, "a.third") is True
        assert store.rename_table(second, "a.first") is True
        assert store.table("a.second") is None
        assert {table.name: table.table_id for table in store.tables()} == {
            "a.first": second,
            "a.third": first,
        }
        assert store.rename_table(4711, "a.fourth") is False

    def test_dropped_table_is_gone_and_its_log_stays(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "a.b", [add("a")])
        assert store.drop_table(table_id) is True
        assert store.drop_table(table_id) is False
        assert store.rename_table(table_id, "a.c") is False
        assert store.table("a.b") is None
        assert store.tables() == []
        assert table_id not in store.heads()
        assert store.commit(proposal(table_id, [add("b")])) == NoTable()
        assert [record.version for record in store.history(table_id)] == [0]
        assert live(store, table_id, 0) == [("a", 0)]
        again = create(store, "a.b", location="memory:///second")
        assert again != table_id
        assert store.drop_table(again) is True
        assert create(store, "a.b", location="memory:///third") not in (table_id, again)

    def test_purge_leaves_nothing_and_touches_no_other_table(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, other = create(store, None, [add("a")]), create(store, "o", [add("a")])
        commit(store, table_id, add("b"), remove("a"))
        store.drop_table(table_id)
        store.purge_table(table_id)
        assert store.history(table_id) == []
        assert list(store.commits(table_id, after=-1)) == []
        assert live(store, table_id, 1) == []
        assert live(store, other, 0) == [("a", 0)]
        # Ids are never reused: a reader with an old one must not see another table.
        assert create(store) > max(table_id, other)

    def test_places_are_taken_once(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "t", location="memory:///a/b")
        for taken in ("memory:///a/b", "memory:///a/b/", "memory:///a", "memory:///a/b/c/d"):
            with pytest.raises(LocationTakenError, match="t"):
                create(store, "u", location=taken)
            with pytest.raises(LocationTakenError, match="t"):
                store.stage_table("u", taken)
            (claim,) = store.claims(taken)
            assert (claim.table_id, claim.status) == (table_id, "live")
        assert store.claims("memory:///a/bc") == []
        assert store.staged_tables() == []
        create(store, "u", location="memory:///a/bc")
        staged = store.stage_table("v", "memory:///a/v")
        assert store.stage_table("w", "memory:///a//v/") == staged
        with pytest.raises(LocationTakenError, match="v"):
            create(store, "x", location="memory:///a/v/x")

    def test_a_dropped_table_holds_its_place_until_it_is_purged(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "t", [add("a"), add("b", "v")], location="memory:///a")
        assert store.begin_purge(table_id) is None, "it lives"
        assert store.may_commit()
        assert store.may_purge()
        commit(store, table_id, remove("a"))
        store.drop_table(table_id)
        with pytest.raises(LocationTakenError, match="t"):
            create(store, "u", location="memory:///a")
        (found,) = store.dropped_tables()
        assert (found.table_id, found.name, found.is_purging) == (table_id, "t", False)
        assert abs(found.dropped_at - store.clock_ms()) < 60_000
        # An adoption gets the place at its end, until a purge begins.
        staged = store.stage_table("u", "memory:///a")
        other = store.begin_purge(table_id)
        assert other is not None
        assert "u" in (other.keeps_files or "")
        store.purge_table(staged)
        begun = store.begin_purge(table_id)
        assert begun is not None
        assert (begun.table.is_purging, begun.keeps_files) == (True, None)
        with pytest.raises(LocationTakenError, match="t"):
            store.stage_table("u", "memory:///a")
        known = store.known_files(table_id).read_all().to_pylist()
        assert sorted((row["path"], row["deletion_vector"] is None) for row in known) == [
            ("a", True),
            ("b", False),
        ]
        store.purge_table(table_id)
        assert store.dropped_tables() == []
        assert store.begin_purge(table_id) is None
        create(store, "u", location="memory:///a")

    def test_a_table_is_dropped_if_its_purge_may_begin(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "t", [add("a"), add("memory:///b/x")], location="memory:///a")

        def refuse(ask: Ask) -> None:
            log = NamingQueries(ask)
            assert log.naming_tables()[table_id].is_dropped
            assert log.absolute_files_of(table_id) == [("memory:///b/x", None)]
            assert [item.version for item in log.commits_of(table_id, after=-1)] == [0]
            assert log.holders(table_id) == [(0, "read")]
            raise ValueError("no")

        found = store.naming_tables()[table_id]
        assert (found.location, found.version, found.is_dropped) == ("memory:///a", 0, False)
        store.pin("p", table_id, 0, seconds=60.0, reason="read")
        with pytest.raises(ValueError, match="no"):
            store.begin_purge(table_id, drop=True, check=refuse)
        assert (store.dropped_tables(), len(store.tables())) == ([], 1)
        commit(store, table_id, add("c"))
        begun = store.begin_purge(table_id, drop=True)
        assert begun is not None
        assert begun.table.table_id == table_id
        assert store.tables() == []
        assert store.begin_purge(table_id, drop=True) is None

    def test_a_table_is_created_from_sources_that_are_there(self, log_store: OpenStore) -> None:
        store = log_store()
        source = create(store, "source")
        first = proposal(0, [METADATA, PROTOCOL])
        store.pin("p", source, 0, seconds=60.0, reason="clone")
        made = store.create_table("c", "memory:///c", first, sources={source: "p"})
        assert isinstance(made, int)
        store.unpin("p")
        other = proposal(0, [METADATA, PROTOCOL])
        with pytest.raises(DeltaSqlError, match="no longer held"):
            store.create_table("d", "memory:///d", other, sources={source: "p"})
        store.drop_table(source)
        with pytest.raises(TableNotFoundError):
            store.create_table("d", "memory:///d", other, sources={source: None})
        again = store.create_table("c", "memory:///c", first, is_retry=True, sources={source: None})
        assert again == made, "what is there already needs no source"
        assert [table.name for table in store.tables()] == ["c"]

    def test_of_two_in_one_place_at_once_one_wins(self, log_store: OpenStore) -> None:
        stores = [log_store(), log_store()]
        for number in range(5):
            start = Barrier(2)

            def make(
                store: LogStore, ending: str, start: Barrier = start, at: int = number
            ) -> bool:
                start.wait()
                try:
                    create(store, f"t{at}{ending}", location=f"memory:///race{at}{ending}")
                except LocationTakenError:
                    return False
                return True

            with ThreadPoolExecutor(2) as pool:
                made = list(pool.map(make, stores, ("", "/in")))
            assert sorted(made) == [False, True]

    def test_failed_create_leaves_nothing(self, log_store: OpenStore) -> None:
        store = log_store()
        twice = proposal(0, [METADATA, PROTOCOL, add("a"), add("a")])
        with pytest.raises(DeltaSqlError):
            store.create_table("a.b", "memory:///a.b", twice)
        assert store.table("a.b") is None
        assert store.heads() == {}

    def test_live_files_are_counted_by_table(self, log_store: OpenStore) -> None:
        store = log_store()
        full, gone = create(store, "contract.full", [add("a")]), create(store, "contract.gone")
        create(store, "contract.empty")
        commit(store, full, remove("a"), add("b"), add("c", "v1"))
        commit(store, gone, add("d"))
        store.drop_table(gone)
        assert store.file_counts() == {"contract.full": 2}

    def test_connections_come_back(self, log_store: OpenStore) -> None:
        store = log_store()
        with store.locked([create(store)]):
            used, waiting = store.pool_usage()
            assert used >= 0
            assert waiting == 0
        assert store.pool_usage() == (0, 0)

    def test_heads_of_all_and_of_some(self, log_store: OpenStore) -> None:
        store = log_store()
        first, second, third = (create(store) for _ in range(3))
        commit(store, second, add("a"))
        assert {key: head.version for key, head in store.heads().items()} == {
            first: 0,
            second: 1,
            third: 0,
        }
        some = store.heads([third, second, 4711])
        assert {key: head.version for key, head in some.items()} == {second: 1, third: 0}
        assert store.heads([]) == {}

    def test_state_at_every_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        changed = Metadata(id="m", schema_string="{}", configuration={"k": "v"})
        commit(store, table_id, add("a"))
        commit(store, table_id, changed)
        commit(store, table_id, Protocol(min_reader_version=3, min_writer_version=7),
               metadata_version=2)  # fmt: skip
        commit(store, table_id, add("b"), metadata_version=2, protocol_version=3)
        places = []
        for version in range(5):
            state = store.state(table_id, version)
            assert state is not None
            assert state.version == version
            places.append((state.metadata_version, state.protocol_version))
        assert places == [(0, 0), (0, 0), (2, 0), (2, 3), (2, 3)]
        assert store.state(table_id) == store.state(table_id, 4)
        state = store.state(table_id)
        assert state is not None
        assert loads(state.metadata)["configuration"] == {"k": "v"}
        assert loads(state.protocol)["minReaderVersion"] == 3
        assert state.stats_columns == "[]"
        assert store.state(table_id, 5) is None

    def test_commit_against_old_metadata_or_protocol_is_refused(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, METADATA)
        stale = store.commit(proposal(table_id, [add("a")]))
        assert isinstance(stale, VersionTaken)
        assert (stale.head.version, stale.head.metadata_version) == (1, 1)
        commit(store, table_id, PROTOCOL, metadata_version=1)
        stale = store.commit(proposal(table_id, [add("a")], metadata_version=1))
        assert isinstance(stale, VersionTaken)
        assert (stale.head.version, stale.head.protocol_version) == (2, 2)
        commit(store, table_id, add("a"), metadata_version=1, protocol_version=2)
        assert live(store, table_id, 3) == [("a", 3)]
