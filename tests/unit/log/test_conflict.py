"""Who may commit after whom: attempts against winners, at both isolation levels."""

import pickle

import pytest

from deltasql.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from deltasql.log.conflict import Attempt, Reads, Winner, find_conflict
from deltasql.log.predicates.predicate import bind, parse
from deltasql.spec.actions import CommitInfo, DomainMetadata, RemoveFile, Txn
from tests.unit.actions_model import SCHEMA, add, metadata, remove, state

WEAK = state(by=("day",))
STRICT = state(by=("day",), delta_isolationLevel="Serializable")
MONDAY, TUESDAY = {"day": "2026-11-02"}, {"day": "2026-11-03"}
LOW = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
HIGH = '{"numRecords":1,"minValues":{"id":50},"maxValues":{"id":90},"nullCount":{"id":0}}'


def where(text, files=None):
    return Reads.where(bind(parse(text), SCHEMA), files=files)


def extended(path, values, **more):
    return RemoveFile.of(add(path, partition_values=values), deletion_timestamp=1, **more)


def blind(*actions):
    return Winner(5, [CommitInfo(operation="WRITE", is_blind_append=True), *actions])


def winner(*actions):
    return Winner(5, [CommitInfo(operation="MERGE", is_blind_append=False), *actions])


MON_DATA = add("mon", partition_values=MONDAY, stats=LOW)
TUE_DATA = add("tue", partition_values=TUESDAY, stats=HIGH)
MON_MOVED = add("mon2", partition_values=MONDAY, data_change=False)

WINNERS = {
    "blind append monday": blind(MON_DATA),
    "blind append tuesday": blind(TUE_DATA),
    "merge adds monday": winner(MON_DATA),
    "merge adds tuesday": winner(TUE_DATA),
    "old writer adds monday": Winner(5, [MON_DATA]),
    "optimize monday": winner(extended("x", MONDAY, data_change=False), MON_MOVED),
    "optimize mine": winner(extended("mine", MONDAY, data_change=False), MON_MOVED),
    "delete monday": winner(extended("x", MONDAY)),
    "delete tuesday": winner(extended("x", TUESDAY)),
    "delete bare": winner(remove("x")),
    "delete mine": winner(extended("mine", MONDAY)),
    "metadata": winner(metadata(by=("day",), delta_x="y")),
    "protocol": winner(WEAK.protocol),
    "txn app": winner(Txn(app_id="app", version=3)),
    "domain d": winner(DomainMetadata(domain="d", configuration="")),
    "domain rows": winner(DomainMetadata(domain="delta.rowTracking", configuration="{}")),
    "nothing": winner(),
}
NEW = add("new", partition_values=MONDAY)
ATTEMPTS = {
    "append": ([NEW], Reads.nothing()),
    "txn append": ([NEW, Txn(app_id="app", version=4)], Reads.nothing()),
    "domain": ([DomainMetadata(domain="d", configuration="x")], Reads.nothing()),
    "row ids": (
        [NEW, DomainMetadata(domain="delta.rowTracking", configuration="")],
        Reads.nothing(),
    ),
    "remove mine": ([extended("mine", MONDAY)], Reads.nothing()),
    "read all": ([NEW], Reads.all()),
    "read monday": ([NEW], where("day = '2026-11-02'")),
    "read low ids": ([NEW], where("id < 20")),
    "read mine": ([NEW], where("day = '2026-11-02'", frozenset({("mine", "")}))),
    "optimize": (
        [
            extended("mine", MONDAY, data_change=False),
            add("m2", partition_values=MONDAY, data_change=False),
        ],
        Reads.all(),
    ),
    "alter": ([metadata(by=("day",), delta_y="z")], Reads.all()),
}

APPEND, READ, TWICE = ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentDeleteDeleteError
ALWAYS = {"metadata": MetadataChangedError, "protocol": ProtocolChangedError}
# What each attempt can't follow, beside ALWAYS: (at WriteSerializable, at Serializable).
APPENDED = {"merge adds monday", "merge adds tuesday", "old writer adds monday"}
BLIND = {"blind append monday", "blind append tuesday"}
DELETED = {"delete monday", "delete tuesday", "delete bare", "delete mine"}
EXPECTED = {
    "append": ({}, {}),
    "txn append": ({"txn app": ConcurrentTransactionError}, {}),
    "domain": ({"domain d": MetadataChangedError}, {}),
    "row ids": ({}, {}),
    "remove mine": ({"delete mine": TWICE, "optimize mine": TWICE}, {}),
    "read all": (
        {**dict.fromkeys(APPENDED, APPEND), **dict.fromkeys(DELETED, READ)},
        dict.fromkeys(BLIND, APPEND),
    ),
    "read monday": (
        {
            "merge adds monday": APPEND,
            "old writer adds monday": APPEND,
            "delete monday": READ,
            "delete bare": READ,
            "delete mine": READ,
        },
        {"blind append monday": APPEND},
    ),
    "read low ids": (
        {
            "merge adds monday": APPEND,
            "old writer adds monday": APPEND,
            **dict.fromkeys(DELETED, READ),
        },
        {"blind append monday": APPEND},
    ),
    "read mine": (
        {"merge adds monday": APPEND, "old writer adds monday": APPEND, "delete mine": READ},
        {"blind append monday": APPEND},
    ),
    "optimize": (
        {**dict.fromkeys(DELETED, READ), "optimize mine": TWICE},
        {},
    ),
    "alter": (
        {
            **dict.fromkeys(APPENDED | BLIND, APPEND),
            **dict.fromkeys(DELETED, READ),
            "optimize monday": APPEND,
            "optimize mine": APPEND,
        },
        {},
    ),
}


@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
@pytest.mark.parametrize("won", WINNERS)
@pytest.mark.parametrize("name", ATTEMPTS)
def test_matrix(name, won, level):
    at = WEAK if level == "WriteSerializable" else STRICT
    weak, more = EXPECTED[name]
    expected = {**weak, **(more if at is STRICT else {}), **ALWAYS}.get(won)
    actions, reads = ATTEMPTS[name]
    found = find_conflict(Attempt.of(actions, reads, at), WINNERS[won], at)
    assert (type(found) if found else None) is expected


# --- details --------------------------------------------------------------------------


def attempt(*actions, reads=None, at=WEAK):
    return Attempt.of(actions, reads or Reads.nothing(), at)


def test_errors_tell_what_collided():
    mine = attempt(NEW, reads=where("id < 20"))
    error = find_conflict(mine, Winner(6, winner(MON_DATA).actions), WEAK)
    assert isinstance(error, ConcurrentAppendError)
    assert (error.version, error.path) == (6, "mon")
    assert "version 6 (MERGE)" in error.problem
    assert "day=2026-11-02" in error.cause
    assert error.remedy
    assert pickle.loads(pickle.dumps(error)).version == 6


def test_the_domain_is_named():
    mine = attempt(DomainMetadata(domain="d", configuration=""))
    assert find_conflict(mine, WINNERS["domain d"], WEAK).domain == "d"


def test_files_are_asked_for_only_where_they_decide():
    asked = []

    def files_read():
        asked.append(1)
        return frozenset({("x", "")})

    mine = attempt(NEW, reads=where("day = '2026-11-02' AND id < 20"))
    for name in ("nothing", "delete tuesday", "blind append monday"):
        assert find_conflict(mine, WINNERS[name], WEAK, files_read=files_read) is None
    assert not asked
    found = find_conflict(mine, WINNERS["delete monday"], WEAK, files_read=files_read)
    assert isinstance(found, ConcurrentDeleteReadError)
    assert asked
    assert find_conflict(mine, WINNERS["delete mine"], WEAK, files_read=files_read) is None


def test_files_alone_may_have_been_read():
    mine = attempt(NEW, reads=Reads(files=frozenset({("mine", "")})))
    assert find_conflict(mine, WINNERS["merge adds monday"], STRICT) is None
    assert isinstance(find_conflict(mine, WINNERS["delete mine"], WEAK), ConcurrentDeleteReadError)


def test_a_removed_file_is_not_brought_back():
    mine = attempt(add("mine", partition_values=MONDAY, data_change=False, tags={"a": "b"}))
    found = find_conflict(mine, WINNERS["delete mine"], WEAK)
    assert isinstance(found, ConcurrentDeleteReadError)
    assert "back" in found.cause


def test_an_append_that_says_blind_but_removes_is_not_blind():
    liar = blind(MON_DATA, extended("x", TUESDAY))
    assert not liar.is_blind_append
    mine = attempt(NEW, reads=where("day = '2026-11-02'"))
    assert isinstance(find_conflict(mine, liar, WEAK), ConcurrentAppendError)


def test_only_rearranging_takes_more_than_moved_files():
    moved = add("m", partition_values=MONDAY, data_change=False)
    assert attempt(moved).only_rearranges
    rows = DomainMetadata(domain="delta.rowTracking", configuration="")
    assert attempt(moved, rows).only_rearranges
    for other in (Txn(app_id="a", version=1), metadata(), NEW):
        assert not attempt(moved, other).only_rearranges
    assert not attempt(moved, DomainMetadata(domain="d", configuration="")).only_rearranges
    assert not attempt().only_rearranges


def test_joined_reads():
    low, monday = where("id < 20"), where("day = '2026-11-02'", frozenset({("a", "")}))
    assert low.joined(Reads.nothing()) == low
    assert Reads.nothing().joined(low) == low
    assert low.joined(Reads.all()) == Reads.all()
    both = low.joined(monday)
    assert both.files is None
    assert isinstance(find_conflict(attempt(reads=both), winner(MON_DATA), WEAK), APPEND)
    tuesday = where("day = '2026-11-03'", frozenset({("b", "")}))
    assert monday.joined(tuesday).files == {("a", ""), ("b", "")}
    assert isinstance(
        find_conflict(attempt(reads=monday.joined(tuesday)), winner(TUE_DATA), WEAK), APPEND
    )


def test_files_without_a_predicate_are_not_forgotten():
    """As of a statement of Spark SQL that names its files alone, before a read that names none."""
    files, tuesday = Reads(files=frozenset({("mon", "")})), where("day = '2026-11-03'")
    gone = winner(RemoveFile(path="mon", partition_values=MONDAY))
    for both in (files.joined(tuesday), tuesday.joined(files)):
        found = find_conflict(attempt(reads=both), gone, WEAK)
        assert isinstance(found, ConcurrentDeleteReadError)
