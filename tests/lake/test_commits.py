"""The low-level writer: what is refused, what conflicts, what is skipped."""

import logging
import pickle
from dataclasses import replace
from functools import reduce

import pytest

import deltasql
from deltasql import AddFile, DomainMetadata, RemoveFile, Txn, UnknownAction
from tests.lake.conftest import ORDERS

STATS = '{"numRecords":1,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}'


def add(path, *, day="d1", id=1, **fields):  # noqa: A002
    return AddFile(
        path=path,
        size=1,
        modification_time=1,
        partition_values={"day": day},
        stats=STATS % (id, id),
        **fields,
    )


def remove(path, day="d1"):
    return RemoveFile(
        path=path,
        deletion_timestamp=1,
        extended_file_metadata=True,
        partition_values={"day": day},
        size=1,
    )


def paths(snapshot):
    return sorted(snapshot.files().column("path").to_pylist())


def test_actions_of_both_forms_are_committed(orders):
    wire = {
        "add": {
            "path": "b",
            "size": 1,
            "modificationTime": 1,
            "partitionValues": {"day": None},
            "dataChange": True,
        }
    }
    assert orders.commit([add("a"), wire], operation="LOAD", operation_params={"from": ["x"]}) == 1
    assert paths(orders.snapshot()) == ["a", "b"]
    entry = orders.history(limit=1)[0]
    assert (entry.operation, entry.operation_params, entry.committer) == (
        "LOAD",
        {"from": '["x"]'},
        "me",
    )


def test_unknown_actions_and_fields_survive(orders):
    odd = add("a", extra={"futureField": {"deep": [1, None, 12345678901234567890123]}})
    orders.commit([odd, UnknownAction("fromTheFuture", {"x": None})])
    (change,) = orders.changes(1, 1)
    assert odd in change.actions
    assert UnknownAction("fromTheFuture", {"x": None}) in change.actions
    assert next(orders.snapshot().adds()) == odd


BAD_COMMITS = {
    "no action": ["nonsense"],
    "two keys": [{"add": {}, "remove": {}}],
    "missing fields": [{"add": {"path": "a"}}],
    "wrong type": [{"add": {"path": 1, "size": "x"}}],
    "path twice": [add("a"), add("a")],
    "path traversal": [add("../../etc/passwd")],
    "hidden traversal": [add("%2e%2e/%2e%2e/x")],
    "NUL": [add("a\x00b")],
    "empty path": [add("")],
    "negative size": [replace(add("a"), size=-1)],
    "partition column missing": [replace(add("a"), partition_values={})],
    "partition column unknown": [replace(add("a"), partition_values={"day": "x", "y": "1"})],
    "stats not JSON": [replace(add("a"), stats="{")],
    "stats with NaN": [replace(add("a"), stats='{"numRecords": NaN}')],
    "two txns": [Txn(app_id="a", version=1), Txn(app_id="a", version=2)],
    "two protocols": [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}] * 2,
    "protocol not an integer": [{"protocol": {"minReaderVersion": "1", "minWriterVersion": 2}}],
    "someone else's domain": [DomainMetadata(domain="delta.secret", configuration="")],
    "deep JSON": [{"deep": reduce(lambda inner, _: [inner], range(5000), 1)}],
}


@pytest.mark.parametrize("actions", BAD_COMMITS.values(), ids=BAD_COMMITS.keys())
def test_malformed_commits_change_nothing(orders, actions):
    with pytest.raises(deltasql.DeltaSqlError) as caught:
        orders.commit(actions)
    assert isinstance(caught.value, deltasql.ValidationError | deltasql.LogFormatError)
    assert orders.version == 0
    assert paths(orders.snapshot()) == []
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_unsupported_writer_features_are_refused(orders):
    protocol = orders.snapshot().protocol
    odd = replace(protocol, writer_features=(*protocol.writer_features, "timeMachine"))
    with pytest.raises(deltasql.UnsupportedFeatureError, match="timeMachine"):
        orders.commit([odd])
    assert orders.version == 0


def test_append_only_tables_keep_their_files(lake):
    table = lake.create_table("kept", ORDERS, properties={"delta.appendOnly": "true"})
    table.commit([replace(add("a"), partition_values={})])
    with pytest.raises(deltasql.ValidationError):
        table.commit([replace(remove("a"), partition_values={})])
    table.commit([replace(remove("a"), partition_values={}, data_change=False)])


def test_a_pinned_version(orders):
    assert orders.commit([add("a")], expected_version=1) == 1
    with pytest.raises(deltasql.VersionConflictError) as caught:
        orders.commit([add("b")], expected_version=1)
    assert (caught.value.expected, caught.value.actual) == (1, 1)
    with pytest.raises(deltasql.VersionConflictError):
        orders.commit([remove("a")], expected_version=7, read_version=1)
    assert orders.version == 1


def test_the_log_file_hears_of_every_version(lake, caplog):
    with caplog.at_level(logging.INFO, "deltasql.commit"):
        table = lake.create_table("heard", ORDERS, partition_by=["day"])
        table.commit([add("a")])
    heard = [line for line in caplog.records if line.name == "deltasql.commit"]
    assert [line.getMessage() for line in heard] == ["committed", "committed"]
    assert [(line.table, line.version, line.attempt) for line in heard] == [
        ("heard", 0, 1),
        ("heard", 1, 1),
    ]
    assert [line.commit_id for line in heard] == [item.commit_id for item in table.history()[::-1]]


def test_txns_are_skipped_once_seen(orders):
    assert orders.commit([add("a")], app_id="app", app_version=3) == 1
    assert orders.commit([add("b")]) == 2
    assert orders.commit([add("c")], app_id="app", app_version=3) == 1
    assert orders.commit([add("c")], app_id="app", app_version=2) == 1
    assert orders.commit([remove("b")], read_version=2, app_id="app", app_version=3) == 1
    assert orders.commit([add("c")], app_id="app", app_version=4) == 3
    assert paths(orders.snapshot()) == ["a", "b", "c"]


def test_a_restated_file_keeps_its_history(orders):
    orders.commit([add("a", id=1)])
    orders.commit([add("a", id=2)])
    assert [a.stats for a in orders.snapshot(version=1).adds()] == [STATS % (1, 1)]
    assert [a.stats for a in orders.snapshot(version=2).adds()] == [STATS % (2, 2)]


def test_a_removed_file_may_come_back(orders):
    orders.commit([add("a")])
    orders.commit([remove("a")], read_version=1)
    orders.commit([add("a")])
    assert [paths(orders.snapshot(version=v)) for v in range(4)] == [[], ["a"], [], ["a"]]


@pytest.mark.parametrize("read", [{}, {"read_version": 2}, {"expected_version": 4}])
def test_what_is_gone_cannot_be_removed_again(lake, orders, read):
    """Its rows may be in other files by now, and what replaces it would double them."""
    orders.commit([add("a")])
    orders.commit([remove("a"), add("b")], operation="OPTIMIZE")
    orders.commit([add("c")])
    with pytest.raises(deltasql.ConcurrentDeleteDeleteError, match="can't be removed"):
        orders.commit([remove("a"), add("d")], **read)
    with pytest.raises(deltasql.CommitError), lake.transaction() as tx:
        tx.table("sales.orders").commit([remove("a"), add("d")])
    assert paths(orders.snapshot()) == ["b", "c"]
    assert orders.commit([remove("b"), add("d")], **read) == 4


def test_a_removal_of_what_the_table_never_had_is_kept(orders):
    orders.commit([remove("never")])
    removed = [
        item.path for item in orders.changes(1, 1)[0].actions if isinstance(item, RemoveFile)
    ]
    assert removed == ["never"]
    assert paths(orders.snapshot()) == []


def test_a_removal_that_is_asked_for_again_is_skipped(orders):
    orders.commit([add("a")])
    again = {"app_id": "app", "app_version": 1}
    assert orders.commit([remove("a"), add("b")], **again) == 2
    assert orders.commit([remove("a"), add("b")], **again) == 2
    assert paths(orders.snapshot()) == ["b"]


class TestConflicts:
    """Two transactions that read the same version; the second one to commit meets the first."""

    @pytest.fixture
    def base(self, orders):
        orders.commit([add("one", day="d1", id=1), add("two", day="d2", id=2)])
        return orders

    @pytest.mark.parametrize(
        ("winner", "loser", "reads", "error"),
        [
            ([remove("one")], [remove("one")], None, deltasql.ConcurrentDeleteDeleteError),
            ([remove("one")], [add("new")], "day = 'd1'", deltasql.ConcurrentDeleteReadError),
            ([remove("one")], [add("new")], "all", deltasql.ConcurrentDeleteReadError),
            ([remove("one")], [add("new")], "day = 'd2'", None),
            ([remove("one")], [remove("two", "d2")], "day = 'd2'", None),
            # A blind append is ordered after a transaction that did not see it …
            ([add("x")], [remove("one")], "day = 'd1'", None),
            ([add("x")], [remove("one")], "all", None),
            # … one that is not blind may not be.
            (
                [remove("two", "d2"), add("x")],
                [remove("one")],
                "day = 'd1'",
                deltasql.ConcurrentAppendError,
            ),
            ([remove("two", "d2"), add("x", day="d3")], [remove("one")], "day = 'd1'", None),
            ([remove("two", "d2"), add("x", id=9)], [remove("one")], "day = 'd1' AND id < 5", None),
            (
                [DomainMetadata(domain="mine", configuration="1")],
                [DomainMetadata(domain="mine", configuration="2")],
                None,
                deltasql.MetadataChangedError,
            ),
        ],
    )
    def test_delta_rules(self, base, winner, loser, reads, error):
        if any(isinstance(action, DomainMetadata) for action in winner):
            # The first domain upgrades the protocol; that would be the conflict.
            base.commit([DomainMetadata(domain="other", configuration="")])
        version = base.version
        base.commit(winner, read_version=version)
        if error is None:
            assert base.commit(loser, read_version=version, reads=reads) == version + 2
        else:
            with pytest.raises(error) as caught:
                base.commit(loser, read_version=version, reads=reads)
            assert caught.value.version == version + 1
            assert base.version == version + 1

    def test_metadata_changes_conflict(self, base):
        changed = _with_property(base, "owner", "me")
        base.commit([changed], read_version=1)
        with pytest.raises(deltasql.MetadataChangedError):
            base.commit([_with_property(base, "owner", "you")], read_version=1)
        with pytest.raises(deltasql.MetadataChangedError):
            base.commit([add("x")], read_version=1)
        assert base.commit([add("x")]) == 3, "a blind append rests on nothing"

    def test_protocol_changes_conflict(self, base):
        base.commit([_with_features(base, "domainMetadata")], read_version=1)
        with pytest.raises(deltasql.ProtocolChangedError):
            base.commit([remove("one")], read_version=1)

    def test_serializable_tables_see_blind_appends(self, base):
        base.commit([_with_property(base, "delta.isolationLevel", "Serializable")])
        base.commit([add("x")])
        with pytest.raises(deltasql.ConcurrentAppendError):
            base.commit([remove("one")], read_version=2, reads="day = 'd1'")

    def test_the_same_application_conflicts(self, base):
        base.commit([Txn(app_id="app", version=1)])
        with pytest.raises(deltasql.ConcurrentTransactionError):
            base.commit([remove("one"), Txn(app_id="app", version=2)], read_version=1)


def _with_property(table, key, value):
    metadata = table.snapshot().metadata
    return replace(metadata, configuration={**metadata.configuration, key: value})


def _with_features(table, *names):
    protocol = table.snapshot().protocol
    return replace(protocol, writer_features=tuple(sorted({*protocol.writer_features, *names})))


def test_what_rests_on_a_version_to_come_is_refused(sqlite_url, tmp_path):
    """It would be checked against nothing."""
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        table = lake.create_table("t", ORDERS, partition_by=["day"])
        table.commit([add("a")])
        table.commit([remove("a"), add("b")])
        for actions in ([remove("a")], [add("c")]):
            for pinned in (None, 3):
                with pytest.raises(deltasql.ValidationError, match="version 3 can't"):
                    table.commit(actions, read_version=3, reads="all", expected_version=pinned)
        with pytest.raises(deltasql.ValidationError, match="version 9 can't"):
            table.commit([add("c")], read_version=9)
        with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as other:
            other.table("t").commit([add("d")])
        assert table.commit([add("c")], read_version=3) == 4, "what others wrote can be read"
