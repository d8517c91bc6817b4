"""What a log store answers: texts as they came, times, applications, filters, history."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.log.pruning import ranges as r
from deltasql.log.pruning.partition_ranges import Days
from deltasql.log.pruning.ranges import Ranges
from deltasql.log.pruning.stats_keys import FileKeys
from deltasql.spec.actions import CdcFile, DomainMetadata, Txn
from deltasql.spec.properties import CLUSTERING_DOMAIN
from deltasql.store.browsing.audit_place import BEFORE_ALL, AuditPlace
from deltasql.store.rows import FILES_SCHEMA, partition_key_of, to_rows
from deltasql.testing.proposals import (
    OpenStore,
    add,
    commit,
    create,
    live,
    proposal,
    remove,
    with_keys,
)

ODD_TEXTS = (
    "emoji 🦆 and ümlaut",
    "'single' \"double\" `back`",
    "back\\slash \\N \\x41 \\u0041",
    "percent %s %(name)s %% 100%",
    "braces {version} {filter} {} {0}",
    "colon :name ::text $1 $name ?",
    "tab\tnewline\ncarriage\rreturn",
    "semi; DROP TABLE dl_tables; --",
    "[1, null] NULL null {}",
    "A8B1C0DE-0000-4000-8000-00000000000A",
    " ",
)

_ORDINALS = 3
# Quarters: every dialect reads them without rounding, so equality is exact.
_KEYS = st.one_of(
    st.none(),
    st.integers(-8, 8).map(lambda quarters: quarters / 4),
    st.sampled_from([-(2.0**52), 2.0**52, -1.7976931348623157e308, 1.7976931348623157e308, 1e300]),
)
_NULLS = st.one_of(st.none(), st.integers(0, 3))


def _lists(items: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(items, max_size=_ORDINALS)


_FILE_KEYS = st.builds(FileKeys, _NULLS, _lists(_KEYS), _lists(_KEYS), _lists(_NULLS))
_BOUNDS = _KEYS.map(lambda key: 0.0 if key is None else key)
_ORDINAL = st.integers(0, _ORDINALS)
_RANGES: st.SearchStrategy[Ranges] = st.recursive(
    st.one_of(
        st.builds(r.AtLeast, _ORDINAL, _BOUNDS),
        st.builds(r.AtMost, _ORDINAL, _BOUNDS),
        st.builds(r.MayBeNull, _ORDINAL),
        st.builds(r.MayBeNotNull, _ORDINAL),
        st.just(r.EVERYTHING),
        st.just(r.NOTHING),
    ),
    lambda parts: st.one_of(
        st.lists(parts, min_size=2, max_size=3).map(lambda found: r.AllOf(tuple(found))),
        st.lists(parts, min_size=2, max_size=3).map(lambda found: r.AnyOf(tuple(found))),
    ),
    max_leaves=6,
)


class ReadContract:
    """Answers about the log."""

    def test_texts_come_back_verbatim(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, "odd 'names' \\ 🦆 are % names")
        assert store.table("odd 'names' \\ 🦆 are % names") is not None
        files = [
            add(
                text,
                stats=text,
                partition_values={text: text, "none": None},
                tags={"t": text},
                clustering_provider=text,
                extra={"later": text},
                base_row_id=2**62,
                default_row_commit_version=7,
                data_change=False,
            )
            for text in ODD_TEXTS
        ]
        sent = proposal(
            table_id, files, committer=ODD_TEXTS[0], operation=ODD_TEXTS[2],
            operation_params=ODD_TEXTS[3], commit_id=ODD_TEXTS[9], transaction_id=ODD_TEXTS[8],
        )  # fmt: skip
        store.commit(sent)
        found = {file["path"]: file for file in store.files(table_id, 1).read_all().to_pylist()}
        names = [field.name for field in FILES_SCHEMA]
        for row in sent.rows.adds:
            file = found.pop(row.path)
            assert [file[name] for name in names] == [
                row.path, row.size_bytes, row.modification_time, row.partition_values, row.stats,
                row.deletion_vector, row.num_records, False, row.tags, 2**62, 7,
                row.clustering_provider, 1, row.extra,
            ]  # fmt: skip
        assert not found
        record = store.history(table_id)[0]
        assert (record.commit_id, record.transaction_id) == (ODD_TEXTS[9], ODD_TEXTS[8])
        assert (record.committer, record.operation) == (ODD_TEXTS[0], ODD_TEXTS[2])
        assert record.operation_params == ODD_TEXTS[3]

    def test_long_texts(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        paths = ["ä" * 2_500 + end for end in "xy"]
        stats = '{"numRecords": 1, "x": "' + "🦆" * 25_000 + '"}'
        commit(store, table_id, *(add(path, "d" * 4_000, stats=stats) for path in paths))
        commit(store, table_id, remove(paths[0], "d" * 4_000), Txn(app_id="a" * 5_000, version=1))
        found = store.files(table_id, 2).read_all().to_pylist()
        assert [(file["path"], file["stats"]) for file in found] == [(paths[1], stats)]
        assert [txn.app_id for txn in store.txns(table_id, 2)] == ["a" * 5_000]

    def test_files_have_their_schema(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a", "v1"))
        for version in (0, 1):
            reader = store.files(table_id, version)
            assert isinstance(reader, pa.RecordBatchReader)
            assert reader.schema == FILES_SCHEMA
            assert reader.read_all().num_rows == version

    def test_reader_left_early_does_not_disturb(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, *(add(str(number)) for number in range(20_000)))
        reader = store.files(table_id, 1)
        assert reader.read_next_batch().num_rows > 0
        commit(store, table_id, remove("0"), add("new"))
        assert sum(batch.num_rows for batch in reader) < 20_000
        left = store.files(table_id, 2)
        left.read_next_batch()
        del left
        commit(store, table_id, add("newer"))
        assert store.files(table_id, 3).read_all().num_rows == 20_001

    def test_version_at_a_time(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        with store.locked([table_id]) as log:
            log.execute("UPDATE dl_table_heads SET last_ict = last_ict + 100000")
        times = [commit(store, table_id).in_commit_timestamp for _ in range(3)]
        first = store.history(table_id)[-1].in_commit_timestamp
        assert store.version_at(table_id, first - 1) is None
        assert store.version_at(table_id, first) == 0
        assert store.version_at(table_id, times[0] - 1) == 0
        assert [store.version_at(table_id, time) for time in times] == [1, 2, 3]
        assert store.version_at(table_id, times[2] + 10**9) == 3

    def test_applications_at_versions(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, Txn(app_id="b", version=1, last_updated=17))
        commit(store, table_id, Txn(app_id="a", version=5), Txn(app_id="b", version=2))
        answers = [
            [(txn.app_id, txn.txn_version, txn.last_updated, txn.version) for txn in found]
            for found in (store.txns(table_id, version) for version in range(3))
        ]
        assert answers == [[], [("b", 1, 17, 1)], [("a", 5, None, 2), ("b", 2, None, 2)]]

    def test_domains_at_versions(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        domain = CLUSTERING_DOMAIN
        commit(store, table_id, DomainMetadata(domain=domain, configuration="{1}"))
        commit(store, table_id, DomainMetadata(domain="mine", configuration=""))
        commit(store, table_id, DomainMetadata(domain=domain, configuration="", removed=True))
        commit(store, table_id, DomainMetadata(domain=domain, configuration="{2}"))
        assert [store.domains(table_id, version) for version in range(5)] == [
            {},
            {domain: "{1}"},
            {domain: "{1}", "mine": ""},
            {"mine": ""},
            {domain: "{2}", "mine": ""},
        ]
        with store.locked([table_id]) as log:
            assert log.domains(table_id) == {domain: "{2}", "mine": ""}

    def test_partitions_and_their_files(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        days = [{"day": f"2026-11-{day:02}"} for day in range(1, 8)]
        for hour in range(3):
            files = [add(f"{day['day']}/{hour}", partition_values=day) for day in days]
            commit(store, table_id, *files)
        commit(store, table_id, remove("2026-11-03/0"), add("plain"))
        texts = [f'{{"day":"{day["day"]}"}}' for day in days]
        found = dict(store.partitions(table_id))
        assert sorted(found.values()) == texts
        assert all(key == partition_key_of(text) for key, text in found.items())
        some = Days("day", (("2026-11-03", "2026-11-04"),))
        assert sorted(text for _, text in store.partitions(table_id, some)) == texts[2:4]
        keys = [partition_key_of(text) for text in texts[2:4]]
        # What is not asked for does not leave the database.
        assert store.files(table_id, 3, partition_keys=keys).read_all().num_rows == 6
        assert store.files(table_id, 4, partition_keys=keys[:1]).read_all().num_rows == 2
        assert store.files(table_id, 4, partition_keys=[]).read_all().num_rows == 0
        none = store.files(table_id, 4, partition_keys=keys, ranges=r.NOTHING)
        assert none.read_all().num_rows == 0

    def test_stats_filter_leaves_files_in_the_database(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        files = [add(f"{number:03}") for number in range(100)]
        keys = [FileKeys(10, [number * 10.0], [number * 10.0 + 9], [0]) for number in range(100)]
        commit(store, table_id, *files, rows=with_keys(to_rows(files, ()), keys))
        commit(store, table_id, *map(remove, ("012", "050")))
        between = r.AllOf((r.AtLeast(0, 105.0), r.AtMost(0, 125.0)))
        assert live(store, table_id, 2, ranges=between) == [("010", 1), ("011", 1)]
        assert live(store, table_id, 1, ranges=between) == [("010", 1), ("011", 1), ("012", 1)]
        assert live(store, table_id, 2, ranges=r.MayBeNull(0)) == []

    def test_stats_filter_equals_its_meaning(self, log_store: OpenStore) -> None:
        store = log_store()

        @settings(max_examples=25)
        @given(keys=st.lists(_FILE_KEYS, min_size=1, max_size=8), wanted=_RANGES)
        def compare(keys: list[FileKeys], wanted: Ranges) -> None:
            table_id = create(store)
            files = [add(str(number)) for number in range(len(keys))]
            commit(store, table_id, *files, rows=with_keys(to_rows(files, ()), keys))
            expected = [
                (str(number), 1) for number, found in enumerate(keys) if r.holds(wanted, found)
            ]
            assert live(store, table_id, 1, ranges=wanted) == expected
            # The same for files that are gone by now.
            commit(store, table_id, *(remove(file.path) for file in files))
            assert live(store, table_id, 1, ranges=wanted) == expected

        compare()

    def test_commits_in_order_and_in_part(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, other = create(store), create(store)
        for number in range(70):
            commit(store, table_id, add(str(number)))
            if number % 30 == 0:
                commit(store, other)
        versions = [record.version for record in store.commits(table_id, after=-1)]
        assert versions == list(range(71))
        part = store.commits(table_id, after=2, upto=68)
        assert [record.version for record in part] == list(range(3, 69))
        assert list(store.commits(table_id, after=70)) == []
        assert [record.version for record in store.commits(other, after=0)] == [1, 2, 3]

    def test_history_newest_first(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        done = [commit(store, table_id, is_blind_append=number == 1) for number in range(3)]
        found = store.history(table_id)
        assert [record.version for record in found] == [3, 2, 1, 0]
        assert [record.is_blind_append for record in found] == [False, True, False, False]
        times = [record.in_commit_timestamp for record in found]
        assert times[:3] == [item.in_commit_timestamp for item in reversed(done)]
        assert store.history(table_id, limit=2) == found[:2]

    def test_audit_over_tables_in_order_of_time(self, log_store: OpenStore) -> None:
        store = log_store()
        tables = {create(store, name): name for name in ("a.first", "a.second")}
        for table_id in itertools.islice(itertools.cycle(tables), 6):
            commit(store, table_id)
        found = store.audit(0, 2**60)
        assert len(found) == 8
        assert all(name == tables[record.table_id] for name, record in found)
        times = [record.in_commit_timestamp for _, record in found]
        assert times == sorted(times)
        pages, place = [], BEFORE_ALL
        while page := store.audit(0, 2**60, after=place, most=3):
            last = page[-1][1]
            place = AuditPlace(last.in_commit_timestamp, last.table_id, last.version)
            pages.append(page)
        assert [len(page) for page in pages] == [3, 3, 2]
        assert list(itertools.chain.from_iterable(pages)) == found
        inside = store.audit(times[2], times[5])
        assert inside == [
            item for item in found if times[2] <= item[1].in_commit_timestamp < times[5]
        ]

    def test_every_table_and_view_answers(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, None, [add("a", partition_values={"p": "1"})])
        commit(
            store, table_id, remove("a"), add("a", "v1"), remove("never"), add("b"),
            CdcFile(path="c", size=1), Txn(app_id="x", version=1),
            DomainMetadata(domain="d", configuration=""),
        )  # fmt: skip
        with store.locked([table_id]) as log:
            adds = log.execute("SELECT path, version FROM dl_add_files ORDER BY version, path")
            assert adds == [("a", 0), ("a", 1), ("b", 1)]
            removes = log.execute("SELECT path, version FROM dl_remove_files ORDER BY path")
            assert removes == [("a", 1), ("never", 1)]
            active = log.execute("SELECT path, size_bytes FROM vw_active_files ORDER BY path")
            assert active == [("a", 10), ("b", 10)]
            latest = log.execute("SELECT path, is_add FROM vw_latest_action_per_path")
            assert sorted((path, bool(is_add)) for path, is_add in latest) == [
                ("a", False), ("a", True), ("b", True), ("never", False),
            ]  # fmt: skip
            counts = log.execute(
                "SELECT (SELECT count(*) FROM dl_cdc_files),"
                " (SELECT count(*) FROM dl_partitions),"
                " (SELECT count(*) FROM dl_metadata_updates),"
                " (SELECT count(*) FROM dl_protocol_updates),"
                " (SELECT count(*) FROM dl_mirror_leases)"
            )
            assert counts == [(1, 1, 1, 1, 0)]

    def test_describes_itself_without_secrets(self, log_store: OpenStore) -> None:
        store = log_store()
        assert store.replica() is None, "nobody named one"
        described = store.describe()
        assert described["dialect"] in ("postgresql", "sqlite", "duckdb")
        assert described["server_version"]
