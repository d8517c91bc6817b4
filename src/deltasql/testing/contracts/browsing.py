"""Pages of the log, for people to look at."""

from __future__ import annotations

from typing import TypedDict

from deltasql.testing.proposals import OpenStore, add, commit, create, proposal, remove


class _Span(TypedDict):
    start: int
    stop: int


ALWAYS: _Span = {"start": 0, "stop": 1 << 52}


class BrowseContract:
    """What `BrowseLog` promises."""

    def test_tables_are_listed_page_by_page(self, log_store: OpenStore) -> None:
        store = log_store()
        for name in ("contract.b", "contract.a_x", "other.a"):
            create(store, name)
        assert [item.name for item in store.browse_tables(most=2)] == ["contract.a_x", "contract.b"]
        assert [item.name for item in store.browse_tables(after="contract.b")] == ["other.a"]
        assert [item.name for item in store.browse_tables(search="A_X")] == ["contract.a_x"]
        found = store.browse_table("contract.b")
        assert found is not None
        assert (found.version, found.mirrored_version, found.files) == (0, None, None)
        assert store.browse_table("contract") is None
        assert store.summary().tables == 3

    def test_tables_and_versions_in_numbers(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "contract.summed")
        commit(store, table_id, add("a"), add("b"))
        commit(store, table_id, remove("a"), add("c", size=7))
        found = store.table_sums(table_id)
        assert (found.files, found.size_bytes, found.old_files, found.old_bytes) == (2, 17, 1, 10)
        versions = store.version_sums(table_id, first=0, last=2)
        assert sorted(versions) == [1, 2]
        assert (versions[1].files_added, versions[1].bytes_added) == (2, 20)
        assert (versions[2].files_removed, versions[2].bytes_removed) == (1, 10)
        assert sorted(store.version_sums(table_id, first=2, last=2)) == [2]
        record = store.table("contract.summed")
        assert store.newest("contract.summed") == (record, 2)
        assert store.newest("contract") is None

    def test_versions_and_files_are_listed_page_by_page(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "contract.browsed")
        commit(store, table_id, add("a"), add("b"))
        commit(store, table_id, remove("a"), add("c"), transaction_id="t")
        page = store.browse_versions(table_id, before=2)
        assert [item.record.version for item in page] == [1, 0]
        assert not any(item.json_written for item in page)
        newest = store.growth(table_id)[0]
        assert (newest.version, newest.gone_files, newest.gone_bytes) == (2, 1, 10)
        for version, expected in ((2, {"b", "c"}), (1, {"a", "b"}), (0, set())):
            seen, after = set(), ""
            while files := store.browse_files(table_id, version, after=after, most=1):
                seen.add(files[0].path)
                after = files[0].path
            assert seen == expected
        ((largest,), count) = store.browse_partitions(table_id, most=1)
        assert (largest.files, largest.size_bytes, count) == (2, 20, 1)
        audit = store.browse_audit(**ALWAYS, most=2)
        assert [(name, record.version) for name, record in audit] == [
            ("contract.browsed", 2),
            ("contract.browsed", 1),
        ]
        ((name, record),) = store.browse_transaction("t", **ALWAYS)
        assert (name, record.version) == ("contract.browsed", 2)
        assert sum(store.activity(**ALWAYS, bucket=1000).values()) == 3
        assert store.landed(table_id, after=-1, upto=2) == [], "nobody has mirrored them"
        (late,) = store.behind()
        assert (late.name, late.versions, late.is_failed) == ("contract.browsed", 3, False)

    def test_only_some_schemas_are_looked_at(self, log_store: OpenStore) -> None:
        store = log_store()
        for name in ("sales.orders", "salesmen", "hr.people.old", "hr"):
            commit(store, create(store, name), transaction_id="t")
        for schemas, names in (
            (None, {"sales.orders", "salesmen", "hr.people.old", "hr"}),
            ({"sales", "none"}, {"sales.orders"}),
            ({"default"}, {"salesmen", "hr"}),
            ({"hr", "default"}, {"salesmen", "hr.people.old", "hr"}),
            ({"hr.people"}, set()),
            ((), set()),
        ):
            assert {item.name for item in store.behind(schemas=schemas)} == names
            assert {item.name for item in store.browse_tables(schemas=schemas)} == names
            audit = store.browse_audit(**ALWAYS, schemas=schemas)
            assert ({name for name, _ in audit}, len(audit)) == (names, 2 * len(names))
            moved = store.browse_transaction("t", **ALWAYS, schemas=schemas)
            assert {name for name, _ in moved} == names
        (late,) = store.behind(name="hr")
        assert late.name == "hr"
        assert store.behind(name="hr", schemas={"hr"}) == store.behind(name="none") == []

    def test_versions_of_one_time_are_on_one_page_or_the_next(self, log_store: OpenStore) -> None:
        store = log_store()
        tables = [create(store) for _ in range(3)]
        time = 1 << 45
        for table_id in tables:
            sent = proposal(table_id, [add("a")], expected_head=0)
            with store.locked([table_id]) as log:
                log.take(sent, in_commit_timestamp=time)
        seen, stop, below = [], time + 1, 0
        while page := store.browse_audit(start=time, stop=stop, below=below, most=1):
            record = page[0][1]
            seen.append(record.table_id)
            stop, below = record.in_commit_timestamp, record.table_id
        assert seen == sorted(tables, reverse=True)
