"""Replay against a model that looks at the whole log anew for every answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LogFormatError
from deltasql.log.replay import Replay
from deltasql.spec.actions import AddFile, DomainMetadata, RemoveFile, Txn
from tests.unit.actions_model import add, metadata, remove, state, vector

PATHS = st.sampled_from("abc")
VECTORS = st.sampled_from([None, vector(), vector(offset=0), vector(offset=1)])
COMMITS = st.lists(
    st.lists(
        st.one_of(
            st.builds(add, PATHS, deletion_vector=VECTORS, size=st.integers(0, 9)),
            st.builds(remove, PATHS, deletion_vector=VECTORS),
            st.builds(Txn, app_id=PATHS, version=st.integers(0, 9)),
            st.builds(
                DomainMetadata,
                domain=PATHS,
                configuration=st.sampled_from("xy"),
                removed=st.booleans(),
            ),
            st.builds(metadata, delta_x=PATHS),
            st.just(state().protocol),
        ),
        max_size=6,
    ),
    max_size=6,
)


def _latest(actions, kinds, key):
    """The newest action of each key, found by walking backwards."""
    found = {}
    for action in reversed(actions):
        if isinstance(action, kinds):
            found.setdefault(key(action), action)
    return found


@given(COMMITS)
def test_replay_is_the_newest_of_each(commits):
    replay = Replay()
    for version, actions in enumerate(commits):
        replay.apply(version, actions)
    log = [action for actions in commits for action in actions]
    files = _latest(log, AddFile | RemoveFile, lambda file: (file.path, file.dv_id))
    assert replay.files == {k: f for k, f in files.items() if isinstance(f, AddFile)}
    assert replay.tombstones == {k: f for k, f in files.items() if isinstance(f, RemoveFile)}
    assert not replay.files.keys() & replay.tombstones.keys()
    assert replay.txns == _latest(log, Txn, lambda txn: txn.app_id)
    domains = _latest(log, DomainMetadata, lambda domain: domain.domain)
    assert replay.domains == {k: d for k, d in domains.items() if not d.removed}
    assert replay.version == (len(commits) - 1 if commits else None)


def test_rule_11_absent_and_zero_offsets_differ():
    replay = Replay()
    replay.apply(0, [add("a", deletion_vector=vector())])
    replay.apply(1, [remove("a", deletion_vector=vector(offset=0))])
    assert len(replay.files) == len(replay.tombstones) == 1


def test_rule_12_adding_again_replaces():
    replay = Replay()
    replay.apply(0, [add("a", tags={"old": "1"})])
    replay.apply(1, [remove("a")])
    replay.apply(2, [add("a", tags={"new": "1"})])
    assert [file.tags for file in replay.files.values()] == [{"new": "1"}]
    assert not replay.tombstones


def test_rule_13_a_txn_may_go_down():
    replay = Replay()
    replay.apply(7, [Txn(app_id="a", version=9)])
    replay.apply(8, [Txn(app_id="a", version=2, last_updated=5)])
    assert replay.txns["a"] == Txn(app_id="a", version=2, last_updated=5)


@pytest.mark.parametrize("version", [7, 9, 6])
def test_gaps_are_refused(version):
    replay = Replay()
    replay.apply(7, [])
    with pytest.raises(LogFormatError, match="can't follow"):
        replay.apply(version, [])


def test_a_table_has_protocol_and_metadata():
    replay = Replay()
    replay.apply(0, [state().metadata])
    with pytest.raises(LogFormatError, match="no protocol"):
        replay.table()
    replay.apply(1, [state().protocol])
    assert replay.table() == (state().protocol, state().metadata)
