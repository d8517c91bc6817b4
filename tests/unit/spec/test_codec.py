"""Canonical JSON: nothing is lost, and equal commits are equal bytes."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import LogFormatError, ValidationError
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, CommitInfo, Metadata, Txn, UnknownAction
from tests.unit.actions_model import ACTIONS, VALUES, add, metadata, remove, vector


@given(ACTIONS)
def test_decode_undoes_encode(action):
    assert codec.decode(codec.encode(action)) == action


@given(ACTIONS)
def test_what_encodes_is_well_typed(action):
    codec.check_types(action)
    assert codec.parse_action(codec.to_wire(action)) == action


@settings(max_examples=40)
@given(st.lists(ACTIONS, max_size=6), st.randoms(use_true_random=False))
def test_equal_commits_are_equal_bytes(actions, chance):
    shuffled = [_shuffled(action, chance) for action in actions]
    chance.shuffle(shuffled)
    assert codec.encode_commit(shuffled) == codec.encode_commit(actions)


def _shuffled(action, chance: random.Random):
    """The same action, with every map filled in another order."""
    return codec.from_wire(_reordered(codec.to_wire(action), chance))


def _reordered(value, chance):
    if isinstance(value, dict):
        items = [(key, _reordered(item, chance)) for key, item in value.items()]
        chance.shuffle(items)
        return dict(items)
    if isinstance(value, list | tuple):
        return [_reordered(item, chance) for item in value]
    return value


@settings(max_examples=40)
@given(st.lists(ACTIONS, max_size=6))
def test_a_commit_file_gives_its_actions_back(actions):
    decoded = codec.decode_commit(codec.encode_commit(actions))
    assert sorted(map(codec.encode, decoded)) == sorted(map(codec.encode, actions))


@given(VALUES)
def test_unknown_values_keep_every_digit(value):
    action = add(extra={"later": value})
    assert codec.decode(codec.encode(action)).extra == {"later": value}


def test_lines_are_ordered_by_kind_and_then_by_bytes():
    actions = [
        UnknownAction("sidecar", {}),
        remove("b"),
        add("b"),
        add("a"),
        Txn(app_id="app", version=1),
        metadata(),
        CommitInfo(operation="WRITE"),
    ]
    names = [next(iter(json.loads(line))) for line in codec.encode_lines(actions)]
    assert names == ["commitInfo", "metaData", "txn", "add", "add", "remove", "sidecar"]
    assert codec.encode_lines(actions)[3] < codec.encode_lines(actions)[4]


def test_a_line_is_canonical():
    line = codec.encode(add("ä", partition_values={"b": None, "a": "1"}, tags={"z": None}))
    assert line.decode() == (
        '{"add":{"dataChange":true,"modificationTime":1,"partitionValues":{"a":"1","b":null},'
        '"path":"ä","size":1,"tags":{"z":null}}}'
    )


def test_absent_fields_are_left_out_and_nulls_of_unknown_fields_stay():
    wire = json.loads(codec.encode(add(extra={"later": None})))["add"]
    assert "stats" not in wire
    assert "deletionVector" not in wire
    assert wire["later"] is None


def test_null_means_absent_for_known_fields():
    line = '{"txn":{"appId":"a","version":1,"lastUpdated":null}}'
    assert codec.decode(line) == Txn(app_id="a", version=1)


def test_big_integers_survive():
    big = 12345678901234567890123456789
    line = codec.encode(UnknownAction("later", {"n": [big, -(2**63), 2**64]}))
    assert str(big).encode() in line
    assert codec.decode(line) == UnknownAction("later", {"n": [big, -(2**63), 2**64]})


def test_an_unknown_action_is_carried_through():
    line = b'{"checkpointMetadata":{"tags":{},"version":3}}'
    assert codec.encode(codec.decode(line)) == line


def test_unknown_fields_of_parts_are_carried_through():
    action = add(deletion_vector=vector(extra={"later": [1, {"a": None}]}))
    assert codec.decode(codec.encode(action)) == action


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b"{}",
        b'{"add":{},"remove":{}}',
        b'{"add":null}',
        b'{"add":[]}',
        b'{"add":{"path":"a"}}',
        b'{"add":{"path":1,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}',
        b'{"txn":{"appId":"a","version":1.5}}',
        b'{"txn":{"appId":"a","version":"1"}}',
        b'{"txn":{"appId":"a","version":true}}',
        b'{"txn":{"appId":"a","version":9223372036854775808}}',
        b'{"txn":{"appId":"a","version":NaN}}',
        b'{"protocol":{"minReaderVersion":2147483648,"minWriterVersion":1}}',
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":[1]}}',
        b'{"metaData":{"id":"a","partitionColumns":[],"schemaString":"{}"}}',
        (
            b'{"add":{"path":"a","partitionValues":{"p":1},"size":1,"modificationTime":1,'
            b'"dataChange":true}}'
        ),
        b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":1}}',
        (
            b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,'
            b'"dataChange":true,"deletionVector":{"storageType":"u"}}}'
        ),
        b'{"add":{"path":"\xff"}}',
        b'{"add":{"path":"\\ud800","n":1234567890123456789012}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"1" * 5_000 + b"}",
    ],
)
def test_malformed_lines_are_refused(line):
    with pytest.raises(LogFormatError) as caught:
        codec.decode(line, source="00000000000000000007.json:2")
    assert "00000000000000000007.json:2" in str(caught.value)


def test_the_line_of_a_malformed_commit_is_named():
    body = codec.encode_commit([add("a")]) + b'{"add":{}}\n'
    with pytest.raises(LogFormatError, match=r"V\.json:2"):
        codec.decode_commit(body, source="V.json")


def test_blank_lines_and_carriage_returns_are_skipped():
    body = codec.encode(add("a")) + b"\r\n\n  \n" + codec.encode(add("b"))
    assert [action.path for action in codec.decode_commit(body)] == ["a", "b"]


@pytest.mark.parametrize(
    "action",
    [
        None,
        "add",
        {"add": {}},
        {1: {}},
        {},
        {"add": {"path": [[]]}},
        AddFile(path=None, size=1, modification_time=1),
        AddFile(path="a", size=1.0, modification_time=1),
        AddFile(path="a", size=True, modification_time=1),
        AddFile(path="a", size=2**63, modification_time=1),
        AddFile(path="a", size=1, modification_time=1, partition_values=None),
        AddFile(path="a", size=1, modification_time=1, partition_values={"p": 1}),
        AddFile(path="a", size=1, modification_time=1, tags={1: "a"}),
        AddFile(path="a", size=1, modification_time=1, deletion_vector={}),
        AddFile(path="a", size=1, modification_time=1, extra=None),
        Metadata(id="a", schema_string="", partition_columns="day"),
        UnknownAction("add", {}),
        UnknownAction("", {}),
    ],
)
def test_ill_typed_actions_are_refused(action):
    with pytest.raises(ValidationError):
        codec.check_types(codec.parse_action(action))


def test_types_that_passed_once_are_still_checked_for_their_values():
    codec.check_types(add(size=1))
    with pytest.raises(ValidationError, match=r"add\.size must be a 64-bit integer"):
        codec.check_types(add(size=2**63))
    with pytest.raises(ValidationError, match=r"add\.partitionValues"):
        codec.check_types(add(partition_values={"p": 5}))


@pytest.mark.parametrize("value", [object(), "\ud800", {1, 2}, 10**5000], ids="abcd")
def test_what_json_lacks_is_refused_when_written(value):
    with pytest.raises(ValidationError):
        codec.encode(add(extra={"later": [value]}))


TXN = {"appId": "a", "version": 1}


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ({"txn": TXN, "beside": 1}, Txn(app_id="a", version=1)),
        ({"beside": {"add": {}}, "txn": TXN, "more": None}, Txn(app_id="a", version=1)),
        ({"txn": TXN, "add": None}, Txn(app_id="a", version=1)),
        ({"one": 1, "two": 2}, UnknownAction("one", 1)),
        ({"add": None, "one": 1}, UnknownAction("one", 1)),
    ],
)
def test_unknown_keys_beside_an_action_are_tolerated_when_read(line, action):
    assert codec.decode(json.dumps(line)) == action
    # To be written, an action stands alone: what is beside it would be lost.
    with pytest.raises(ValidationError, match="exactly one key"):
        codec.parse_action(line)


@pytest.mark.parametrize(
    "line", [{}, [], 1, {"txn": TXN, "commitInfo": {}}, {"add": None, "remove": None}]
)
def test_a_line_has_one_action(line):
    with pytest.raises(LogFormatError):
        codec.decode(json.dumps(line))
