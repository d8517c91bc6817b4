"""What a log store does with histories that are loaded in bulk."""

from __future__ import annotations

import uuid
from hashlib import sha256

import pytest

from deltasql.errors import TableExistsError
from deltasql.spec.actions import Action, DomainMetadata, Txn
from deltasql.store.history import HistoryEnd, HistoryRows, LoadedVersion
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Lease
from deltasql.store.rows import CommitRows, to_rows
from deltasql.testing.proposals import (
    METADATA,
    PROTOCOL,
    OpenStore,
    add,
    commit,
    create,
    live,
    remove,
)


class HistoryContract:
    """Tables that are invisible until they are complete."""

    def test_a_staged_table_is_invisible(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "staged")
        store.load_history(lease, _first(add("a")))
        assert store.table("staged") is None
        assert store.tables() == []
        assert store.head(table_id) is None
        assert store.heads() == {}
        assert store.backlog() == []
        assert store.audit(0, 2**62) == []
        (found,) = store.staged_tables()
        assert (found.table_id, found.name, found.newest) == (table_id, "staged", 0)

    def test_chunks_are_adds_that_others_made(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "t")
        odd = add("odd\t\\ \n name", "v", stats='{"numRecords":3}')
        part = _first(add("a"), add("b"), odd)
        chunk = store.add_chunk(table_id, part.adds[1:])
        part.chunks, part.adds = [chunk], part.adds[:1]
        assert store.load_history(lease, part)
        assert store.finish_history(lease, _end("t", 0))
        assert live(store, table_id, 0) == [("a", 0), ("b", 0), ("odd\t\\ \n name", 0)]
        (found,) = [item.add for item in store.file_rows(table_id, 0) if "odd" in item.add.path]
        assert (found.num_records, found.stats) == (3, '{"numRecords":3}')

    def test_the_end_shows_everything(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "t")
        assert store.load_history(lease, _first(add("a"), add("b")))
        assert store.load_history(lease, _next(1, [remove("a"), add("c")]))
        assert store.finish_history(lease, _end("t", 1, read_only_reason="why"))
        found = store.table("t")
        assert found is not None
        assert (found.table_id, found.read_only_reason) == (table_id, "why")
        assert store.staged_tables() == []
        assert store.read_only_reason(table_id) == "why"
        assert store.set_read_only(table_id, None)
        assert store.read_only_reason(table_id) is None
        assert live(store, table_id, 0) == [("a", 0), ("b", 0)]
        assert live(store, table_id, 1) == [("b", 0), ("c", 1)]
        assert [record.version for record in store.history(table_id)] == [1, 0]
        assert store.pending(table_id, most=9) == []
        state = store.state(table_id)
        assert state is not None
        assert (state.version, state.metadata_version) == (1, 0)
        assert not store.trim_history(lease, after=-1), "nobody loads a finished table"
        # The next commit is an ordinary one.
        assert commit(store, table_id, add("d"), remove("b")).version == 2
        assert live(store, table_id, 2) == [("c", 1), ("d", 2)]

    def test_files_are_followed_across_parts(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "t")
        store.load_history(lease, _first(add("a"), add("b"), add("b2", "v")))
        part = _next(3, [])
        removed = to_rows([remove("a"), remove("ghost"), remove("b2", "v")], ()).removes
        part.retired = [(1, *row) for row in removed]
        # "b" is restated at version 2; nothing was live that "c" could restate.
        restated = to_rows([add("b", size=77), add("c")], ()).adds
        part.retired += [(2, row[0], row[1], "", None, None, None, None) for row in restated]
        part.adds = [(2, *row) for row in restated]
        gone = to_rows([add("brief")], ()).adds[0]
        part.dead = [(1, *gone, 3, 99, True, '{"path":"brief"}')]
        part.versions = [_version(number) for number in (1, 2, 3)]
        assert store.load_history(lease, part)
        store.finish_history(lease, _end("t", 3))
        assert live(store, table_id, 0) == [("a", 0), ("b", 0), ("b2", 0)]
        assert live(store, table_id, 1) == [("b", 0), ("brief", 1)]
        assert live(store, table_id, 2) == [("b", 2), ("brief", 1), ("c", 2)]
        assert live(store, table_id, 3) == [("b", 2), ("c", 2)]
        gone_paths = store.tombstones(table_id, 3, newer_than=-1).read_all()["action"].to_pylist()
        assert len(gone_paths) == 4

    def test_trimming_undoes_halves_of_versions(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "t")
        store.load_history(lease, _first(add("a"), add("b")))
        half = _next(1, [remove("a"), add("c"), Txn(app_id="x", version=1)])
        half.versions = []
        store.load_history(lease, half)
        assert store.trim_history(lease, after=0)
        store.load_history(lease, _next(1, [remove("b"), add("c")]))
        store.finish_history(lease, _end("t", 1))
        assert live(store, table_id, 0) == [("a", 0), ("b", 0)]
        assert live(store, table_id, 1) == [("a", 0), ("c", 1)]
        assert store.txns(table_id, 1) == []

    def test_times_are_put_before_a_later_one(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "t")
        store.load_history(lease, _first())
        store.load_history(lease, _next(1, []))
        part = _next(2, [])
        part.versions = [_version(2, at=500)]
        part.times_before = (2, 500)
        store.load_history(lease, part)
        assert [found.in_commit_timestamp for found in store.history(table_id)] == [500, 499, 498]
        assert store.version_at(table_id, 499) == 1

    def test_who_lost_the_lease_writes_nothing(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "t")
        store.release_lease(lease)
        other = store.acquire_lease(table_id, "other", 60)
        assert other is not None
        assert not store.load_history(lease, _first(add("a")))
        assert not store.trim_history(lease, after=-1)
        assert not store.finish_history(lease, _end("t", 0))
        assert store.history(table_id) == []
        assert store.load_history(other, _first(add("a")))

    def test_a_taken_name_is_told(self, log_store: OpenStore) -> None:
        store = log_store()
        _, lease = _staged(store, "t")
        store.load_history(lease, _first())
        create(store, "t")
        with pytest.raises(TableExistsError, match="already"):
            store.finish_history(lease, _end("t", 0))
        assert store.finish_history(lease, _end("u", 0))

    def test_a_table_takes_the_place_of_another(self, log_store: OpenStore) -> None:
        store = log_store()
        old = create(store, "t")
        table_id, lease = _staged(store, "t")
        store.load_history(lease, _first(add("new")))
        assert store.finish_history(lease, _end("t", 0, replaces=old))
        assert [found.table_id for found in store.tables()] == [table_id]
        assert store.head(old) is None

    def test_other_actions(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, lease = _staged(store, "t")
        store.load_history(lease, _first(Txn(app_id="x", version=5)))
        changed: list[Action] = [
            Txn(app_id="x", version=3),
            DomainMetadata(domain="d", configuration="c"),
        ]
        store.load_history(lease, _next(1, changed))
        store.finish_history(lease, _end("t", 1))
        assert [found.txn_version for found in store.txns(table_id, 0)] == [5]
        assert [found.txn_version for found in store.txns(table_id, 1)] == [3]
        assert store.domains(table_id, 0) == {}
        assert store.domains(table_id, 1) == {"d": "c"}
        (first, _) = store.commits(table_id, after=-1)
        assert first.body == b"body 0"

    def test_read_only_under_lock(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        with store.locked([table_id]) as log:
            log.set_read_only(table_id, "released")
        assert store.read_only_reason(table_id) == "released"
        assert not store.set_read_only(4711, "nobody's")


def _staged(store: LogStore, name: str) -> tuple[int, Lease]:
    table_id = store.stage_table(name, f"memory:///{uuid.uuid4().hex}")
    lease = store.acquire_lease(table_id, "me", 60)
    assert lease is not None
    return table_id, lease


def _first(*actions: Action) -> HistoryRows:
    return _next(0, [METADATA, PROTOCOL, *actions])


def _next(version: int, actions: list[Action]) -> HistoryRows:
    found: CommitRows = to_rows(actions, ())
    place = (version,)
    return HistoryRows(
        adds=[place + row for row in found.adds],
        retired=[place + row for row in found.removes],
        txns=[place + row for row in found.txns],
        domains=[place + row for row in found.domains],
        metadata=[place + row for row in found.metadata],
        protocol=[place + row for row in found.protocol],
        versions=[_version(version)],
    )


def _version(version: int, *, at: int | None = None) -> LoadedVersion:
    body = b"body %d" % version
    return LoadedVersion(
        version=version,
        commit_id=f"adopted-{version}",
        in_commit_timestamp=1_700_000_000_000 + version if at is None else at,
        committer=None,
        operation="WRITE",
        operation_params="{}",
        is_blind_append=False,
        digest=sha256(body).digest(),
        body_encoding="raw",
        body=body,
        checkpoint_written=False,
    )


def _end(
    name: str, version: int, *, read_only_reason: str | None = None, replaces: int | None = None
) -> HistoryEnd:
    return HistoryEnd(
        name=name,
        version=version,
        last_ict=1_700_000_000_000 + version,
        earliest_version=0,
        metadata_version=0,
        protocol_version=0,
        min_reader=1,
        min_writer=2,
        properties="{}",
        read_only_reason=read_only_reason,
        replaces=replaces,
    )
