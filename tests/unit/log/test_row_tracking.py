"""Rule 47: row ids are unique for ever, and the mark never goes down."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LogFormatError, ValidationError
from deltasql.log.row_tracking import (
    ROW_TRACKING_DOMAIN,
    assign_row_ids,
    high_water_mark,
    number_rows,
)
from deltasql.spec.actions import AddFile, DomainMetadata, RemoveFile, Txn
from tests.unit.actions_model import add, vector


def rows(path, count, **more):
    return add(path, stats=json.dumps({"numRecords": count}), **more)


def mark_of(actions):
    (domain,) = [action for action in actions if isinstance(action, DomainMetadata)]
    assert domain.domain == ROW_TRACKING_DOMAIN
    return json.loads(domain.configuration)["rowIdHighWaterMark"]


def ids_of(actions):
    return [
        range(action.base_row_id, action.base_row_id + json.loads(action.stats)["numRecords"])
        for action in actions
        if isinstance(action, AddFile)
    ]


def test_rule_47_fresh_ids_begin_at_zero():
    actions = assign_row_ids([rows("a", 3), rows("b", 2)], version=7, domains={})
    assert ids_of(actions) == [range(3), range(3, 5)]
    assert [a.default_row_commit_version for a in actions[:2]] == [7, 7]
    assert mark_of(actions) == 4


def test_rule_47_ids_are_above_the_mark():
    domains = {ROW_TRACKING_DOMAIN: '{"rowIdHighWaterMark":9,"domainName":"delta.rowTracking"}'}
    actions = assign_row_ids([Txn(app_id="a", version=1), rows("a", 3)], version=7, domains=domains)
    assert ids_of(actions) == [range(10, 13)]
    assert mark_of(actions) == 12
    assert actions[0] == Txn(app_id="a", version=1)


def test_rule_47_files_that_have_ids_keep_them():
    old = rows("a", 3, base_row_id=5, default_row_commit_version=2)
    actions, mark = number_rows([old], version=7, high_water_mark=20)
    assert (actions, mark) == ([old], 20)


def test_rule_47_ids_beyond_the_mark_raise_it():
    given_ids = rows("a", 3, base_row_id=30, default_row_commit_version=2)
    actions, mark = number_rows([given_ids, rows("b", 1)], version=7, high_water_mark=20)
    assert mark == mark_of(actions) == 33
    assert ids_of(actions) == [range(30, 33), range(33, 34)]


def test_rule_47_a_replaced_file_takes_its_ids_along():
    old = rows("a", 3, base_row_id=5, default_row_commit_version=2)
    new = rows("a", 3, deletion_vector=vector())
    actions, mark = number_rows(
        [RemoveFile.of(old, deletion_timestamp=1), new], version=7, high_water_mark=20
    )
    assert mark == 20
    assert (actions[1].base_row_id, actions[1].default_row_commit_version) == (5, 2)


def test_rule_47_a_reserved_mark_counts():
    reserved = DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration='{"rowIdHighWaterMark":99}')
    actions, mark = number_rows([reserved, rows("a", 1)], version=7, high_water_mark=20)
    assert mark == mark_of(actions) == 100


def test_rule_47_nothing_new_needs_no_mark():
    assert number_rows([], version=7, high_water_mark=20) == ([], 20)
    empty, mark = number_rows([rows("a", 0)], version=7, high_water_mark=20)
    assert (empty[0].base_row_id, len(empty), mark) == (21, 1, 20)


@pytest.mark.parametrize("stats", [None, "{}", "{", "[]", '{"numRecords":-1}'])
def test_rule_47_rows_must_be_counted(stats):
    with pytest.raises(ValidationError, match="numRecords"):
        assign_row_ids([add(stats=stats)], version=7, domains={})


@pytest.mark.parametrize("text", ["{}", "[]", "1", '{"rowIdHighWaterMark":"1"}', "{"])
def test_a_lost_mark_is_not_guessed(text):
    with pytest.raises(LogFormatError):
        high_water_mark(text)


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5))
def test_rule_47_ids_never_repeat(commits):
    domains, seen = {}, set()
    for version, counts in enumerate(commits):
        files = [rows(f"{version}-{n}", count) for n, count in enumerate(counts)]
        actions = assign_row_ids(files, version=version, domains=domains)
        for ids in ids_of(actions):
            assert not seen.intersection(ids)
            seen.update(ids)
        for action in actions:
            if isinstance(action, DomainMetadata):
                domains[action.domain] = action.configuration
    assert high_water_mark(domains.get(ROW_TRACKING_DOMAIN)) == max(seen, default=-1)
