"""The rows of a log as checks read them, what was proven about them, and rebuilt rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deltasql.errors import TableNotFoundError
from deltasql.log.file_sums import FileSum, FileSums
from deltasql.log.pruning.partition_ranges import PREFIX
from deltasql.spec import codec
from deltasql.spec.actions import DomainMetadata, Txn
from deltasql.spec.properties import APPEND_ONLY
from deltasql.store.checking.interface import (
    OTHERS,
    Origin,
    RebuiltHead,
    TableColumns,
    TrustedVersion,
)
from deltasql.store.history import HistoryRows
from deltasql.store.interface import LogStore
from deltasql.store.rows import key_of, partition_key_of, to_rows
from deltasql.testing.proposals import OpenStore, add, commit, create, live, remove

_TXN = Txn(app_id="app", version=3)
_DOMAIN = DomainMetadata(domain="mine", configuration="{}", removed=False)


def _history(store: LogStore) -> int:
    """Files that come, go, are restated, and one that was unknown."""
    table_id = create(store, actions=[add("a"), add("b", "v1")])
    commit(store, table_id, add("c"), _TXN, _DOMAIN)
    commit(store, table_id, remove("a"), remove("unknown"))
    commit(store, table_id, add("c", size=11))
    return table_id


def _keys(store: LogStore, table_id: int, version: int) -> set[tuple[bytes, bytes, int]]:
    found = store.live_keys(table_id, version).read_all().to_pylist()
    sizes = store.live_sizes(table_id, version).read_all().to_pylist()
    assert sorted((row["path"], row["size"]) for row in sizes) == sorted(
        (row["path"], row["size_bytes"]) for row in found
    )
    return {(row["path_key"], row["dv_key"], row["size_bytes"]) for row in found}


def _ended(
    store: LogStore, table_id: int, *, after: int, upto: int
) -> list[tuple[bytes, bytes, int]]:
    found = store.ended_keys(table_id, after=after, upto=upto).read_all().to_pylist()
    return sorted((row["path_key"], row["dv_key"], row["size_bytes"]) for row in found)


def _rows(store: LogStore, table_id: int, version: int) -> dict[str, list[str]]:
    found = {kind: store.other_rows(table_id, kind, version) for kind in OTHERS}
    every: dict[str, Any] = {"files": store.file_rows(table_id, version), **found}
    return {kind: sorted(map(repr, rows)) for kind, rows in every.items()}


class TrustContract:
    """What `TrustLog` promises."""

    def test_keys_of_live_files_at_every_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        a, c = (key_of("a"), b"", 10), (key_of("c"), b"", 10)
        b = (key_of("b"), key_of("uv1@1"), 10)
        assert _keys(store, table_id, 0) == {a, b}
        assert _keys(store, table_id, 1) == {a, b, c}
        assert _keys(store, table_id, 2) == {b, c}
        assert _keys(store, table_id, 3) == {b, (key_of("c"), b"", 11)}
        assert _ended(store, table_id, after=0, upto=3) == [a]
        assert _ended(store, table_id, after=1, upto=3) == sorted([a, c])
        assert _ended(store, table_id, after=2, upto=2) == []

    def test_rows_are_what_was_written(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        rows = {
            row.add.path: row for row in store.file_rows(table_id, 1) if row.removal.version is None
        }
        (expected,) = to_rows([add("b", "v1")], ()).adds
        found = rows["b"]
        assert (found.version, *found.add[:8]) == (0, *expected[:8])
        assert found.add[12:] == expected[12:]
        ended = {
            (row.add.path, row.version, row.removal.version)
            for row in store.file_rows(table_id, 3)
            if row.removal.version
        }
        assert ended == {("a", 0, 2), ("c", 1, 3), ("unknown", None, 2)}
        assert [row[1:4] for row in store.other_rows(table_id, "txns", 3)] == [
            (key_of("app"), "app", 3)
        ]
        assert list(store.other_rows(table_id, "txns", 0)) == []
        assert [row[0] for row in store.other_rows(table_id, "metadata", 3)] == [0]
        columns = store.table_columns(table_id)
        assert columns == TableColumns(f'{{"{APPEND_ONLY}":"false"}}', 1, 2)

    def test_commits_have_their_digests(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        found = list(store.stored_commits(table_id, after=0, upto=2))
        history = {record.version: record.digest for record in store.history(table_id)}
        assert [(item.version, item.digest) for item in found] == [
            (version, history[version]) for version in (1, 2)
        ]
        assert found[0].body == next(store.commits(table_id, after=0, upto=1)).body
        assert list(store.digests(table_id)) == sorted(history.items())
        assert list(store.digests(table_id + 1_000)) == []

    def test_partition_values_are_what_partitions_have(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, long = create(store), "é" * 200
        values = [{"p": "7", "q": "2026-11-17"}, {"p": None, "q": long}]
        for number, item in enumerate(values):
            commit(store, table_id, add(str(number), partition_values=item))
        keys = [partition_key_of(codec.dumps(item).decode()) for item in values]
        assert sorted(store.partition_values(table_id)) == sorted(
            [
                (keys[0], "p", "number", "7"),
                (keys[0], "q", "day", "2026-11-17"),
                (keys[1], "p", "null", None),
                (keys[1], "q", "other", long[:PREFIX]),
            ]
        )
        store.drop_table(table_id)
        store.purge_table(table_id)
        assert store.partition_values(table_id) == []

    def test_what_was_proven_is_kept_once_an_origin(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        assert store.trusted(table_id) == []
        first = TrustedVersion(table_id, Origin.CHECKED, 1, FileSums(1, 2, b"d" * 16), b"r" * 16)
        other = TrustedVersion(table_id, Origin.CHECKPOINT, 4, FileSums(2, 3, b"e" * 16))
        store.trust(first)
        store.trust(other)
        assert store.trusted(table_id) == [other, first]
        later = TrustedVersion(table_id, Origin.CHECKED, 7, FileSums(), None)
        store.trust(later)
        assert log_store().trusted(table_id) == [later, other]
        store.drop_table(table_id)
        store.purge_table(table_id)
        assert store.trusted(table_id) == []

    def test_rows_made_anew(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        neighbour = _history(store)
        before, beside = _rows(store, table_id, 3), _rows(store, neighbour, 3)
        head = store.head(table_id)
        assert head is not None
        store.trust(TrustedVersion(table_id, Origin.CHECKED, 3, FileSums()))
        with store.rebuilding(table_id) as run:
            assert run.head == head
            assert [item.version for item in run.commits(after=1)] == [2, 3]
            run.clear(after=1)
            assert run.live_sums().files == 3
            removed = to_rows([remove("a"), remove("unknown")], ()).removes
            (again,) = to_rows([add("c", size=11)], ()).adds
            restated = (3, key_of("c"), b"", "", None, None, None, None)
            run.write(HistoryRows(retired=[*((2, *row) for row in removed), restated]))
            run.write(HistoryRows(adds=[(3, *again)]))
            run.finish(RebuiltHead(3, head.last_ict, 0, 0, TableColumns("{}", 1, 2)))
        assert _rows(store, table_id, 3) == before
        assert _rows(store, neighbour, 3) == beside
        assert store.head(table_id) == head
        assert store.table_columns(table_id) == TableColumns("{}", 1, 2)
        assert store.trusted(table_id) == []
        commit(store, table_id, add("d"))

    def test_a_version_repeats_what_its_commit_says(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        (before,) = store.stored_commits(table_id, after=0, upto=1)
        told = replace(
            before,
            committer="somebody else",
            operation="MERGE",
            operation_params='{"a":"b"}',
            transaction_id="t",
            is_blind_append=True,
        )
        with store.rebuilding(table_id) as run:
            run.mend(told)
        assert list(store.stored_commits(table_id, after=0, upto=1)) == [told]
        record = next(item for item in store.history(table_id) if item.version == 1)
        assert (record.committer, record.operation) == ("somebody else", "MERGE")
        assert record.digest == before.digest

    def test_a_failed_rebuild_changes_nothing(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = _history(store)
        before = _rows(store, table_id, 3)

        def fail() -> None:
            with store.rebuilding(table_id) as run:
                run.clear(after=-1)
                run.clear_files()
                assert run.live_sums() == FileSum().value()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert _rows(store, table_id, 3) == before
        assert live(store, table_id, 3) == [("b", 0), ("c", 3)]

    def test_a_table_that_is_gone_can_not_be_rebuilt(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        store.drop_table(table_id)
        with pytest.raises(TableNotFoundError), store.rebuilding(table_id):
            pass
