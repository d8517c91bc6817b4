"""Whatever a caller passes, a commit is accepted or refused: nothing else ever comes out."""

import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltasql.errors import DeltaSqlError
from deltasql.log.validation.commits import validate_commit
from deltasql.spec import codec
from tests.unit.actions_model import ACTIONS, SCHEMA, STATS, VALUES, state

QUICK = settings(max_examples=80, suppress_health_check=list(HealthCheck))
STATES = st.sampled_from(
    [
        None,
        state(),
        state(by=("day",)),
        state(
            features=("rowTracking", "clustering"),
            delta_enableDeletionVectors="true",
            delta_appendOnly="true",
        ),
        state(by=("name",), features=("timestampNtz",), delta_enableChangeDataFeed="true"),
    ]
)


def _deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": [value]}
    return value


# Each has broken something, somewhere, once.
NASTY = st.sampled_from(
    [
        None,
        "",
        "\0",
        "a\0b",
        "\ud800",
        "../../etc/passwd",
        "a/%2e%2e/b",
        "%zz%ff",
        "x" * 70_000,
        "{" * 10_000,
        "[" * 100_000,
        '{"numRecords":NaN}',
        '{"numRecords":-1}',
        '{"numRecords":1e999}',
        '{"numRecords":' + "9" * 5000 + "}",
        '{"minValues":{"id":Infinity}}',
        STATS,
        '{"type":"struct","fields":[{"name":"a","type":"decimal(99999999999999999999,1)"}]}',
        '{"type":"array","elementType":' * 500 + '"long"' + "}" * 500,
        "2026-11-01",
        "u",
        "delta.rowTracking",
        "delta.later",
        0,
        -1,
        True,
        2**31,
        2**63,
        10**5000,
        1.5,
        math.nan,
        math.inf,
        b"bytes",
        (),
        [],
        [None],
        ["day"],
        ["day", "day"],
        {},
        {"day": "2026-11-01"},
        {"day": 1},
        {1: 2},
        {"a\0": "b"},
        _deep(60),
        _deep(20_000),
        object(),
        set(),
    ]
)
ANY = NASTY | VALUES
FIELDS = sorted({wire for shape in codec.SHAPES.values() for wire in shape.wires} | {"later"})
KIND = st.sampled_from([*codec.KINDS, "later"]) | st.text(max_size=3)


@st.composite
def _broken(draw: st.DrawFn) -> Any:
    """An action in Delta's JSON, with some fields replaced by what does not belong there."""
    wire = codec.to_wire(draw(ACTIONS))
    ((name, content),) = wire.items()
    if not isinstance(content, dict):
        return {name: draw(ANY)}
    for field in draw(st.lists(st.sampled_from([*content, *FIELDS]), max_size=3)):
        content[field] = draw(ANY)
    for part in ("deletionVector", "format"):
        if isinstance(content.get(part), dict) and draw(st.booleans()):
            content[part][draw(st.sampled_from(FIELDS))] = draw(ANY)
    return {name: content}


FIRST = [
    {"protocol": codec.wire_fields(state().protocol)},
    {"metaData": codec.wire_fields(state().metadata)},
]


def _try(values: list[Any], at: Any) -> bool:
    try:
        actions = [codec.parse_action(value) for value in values]
        validate_commit(actions, at)
    except DeltaSqlError as error:
        str(error)
        return False
    # What was accepted can be written, and read back.
    body = codec.encode_commit(actions)
    assert len(codec.decode_commit(body)) == len(actions)
    assert b"\0" not in body
    return True


@QUICK
@given(st.lists(_broken(), max_size=4), STATES, st.booleans())
def test_broken_actions(values, at, begins):
    _try([*FIRST, *values] if begins and at is None else values, at)


@QUICK
@given(st.dictionaries(KIND, ANY, max_size=2) | ANY, STATES)
def test_things_that_are_no_actions(value, at):
    _try([value], at)


@QUICK
@given(KIND, st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=6), STATES)
def test_fields_at_random(kind, fields, at):
    _try([{kind: fields}], at)


@QUICK
@given(ACTIONS, STATES)
def test_well_typed_actions(action, at):
    _try([action], at)


@QUICK
@given(st.sampled_from(["path", "stats", "partitionValues", "tags", "size", "later"]), ANY)
def test_one_field_of_a_good_add(field, value):
    good = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1}
    _try([{"add": {**good, "dataChange": True, field: value}}], state())


@QUICK
@given(st.sampled_from(["schemaString", "partitionColumns", "configuration", "id", "later"]), ANY)
def test_one_field_of_good_metadata(field, value):
    good = codec.wire_fields(state(SCHEMA).metadata)
    _try([{"metaData": {**good, field: value}}], state())


def test_the_good_ones_are_good():
    assert _try(FIRST, None)
    assert _try([{"later": 1}], state())
