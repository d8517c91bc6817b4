"""The commit file that a request becomes, whatever is cached of the ones before."""

import pytest

from deltasql.commit.request import CommitRequest, propose
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, CommitInfo
from tests.unit.actions_model import state

ADD = AddFile(path="a", size=1, modification_time=2)
# What the writer of the lines leaves open, as it stands in them: no text of a caller is mistaken.
HOLE = 8_111_111_111_111_111_111


def body(request, ict=7):
    given = propose(request, state()).body
    time = b"%d" % ict
    return given.start + time + given.middle + time + given.end


def request(read_version, *, actions=(ADD,), params=None):
    return CommitRequest(
        table_id=1,
        table_name="t",
        actions=list(actions),
        commit_id="c",
        operation="WRITE",
        operation_params=params or {},
        read_version=read_version,
    )


def canonical(read_version, params=None, extra=None):
    info = CommitInfo(
        operation="WRITE",
        operation_parameters=params or {},
        engine_info="deltasql",
        is_blind_append=True,
        read_version=read_version,
        isolation_level="WriteSerializable",
        in_commit_timestamp=7,
        timestamp=7,
        txn_id="c",
        extra=extra or {},
    )
    return codec.encode_commit([info, ADD])


def test_each_commit_has_its_own_read_version():
    for version in (None, 0, 1, 2, None, 10**12, 2**63 - 1, HOLE, 3):
        assert body(request(version)) == canonical(version)


@pytest.mark.parametrize("version", [None, 4])
def test_a_caller_may_use_the_number_of_the_hole(version):
    params, extra = {"n": str(HOLE)}, {"mine": HOLE - 1, "zz": [HOLE]}
    given = request(version, actions=[CommitInfo(extra=extra), ADD], params=params)
    assert body(given) == canonical(version, params, extra)
