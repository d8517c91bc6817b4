"""What follows a commit can't undo it: failures there are told and go no further."""

import logging

import pytest

from deltasql.commit.commit_logging import after_commit


def test_a_failure_is_logged_and_the_commit_stands(caplog):
    caplog.set_level(logging.WARNING, "deltasql.commit")
    with after_commit("mirroring", "a", "b"):
        raise ValueError("no room")
    assert [item.getMessage() for item in caplog.records] == [
        "a, b: committed, but mirroring failed afterwards: no room"
    ]
    assert caplog.records[0].table == "a, b"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interruption_goes_on(kind, caplog):
    with pytest.raises(kind), after_commit("mirroring", "a"):
        raise kind
    assert not caplog.records
