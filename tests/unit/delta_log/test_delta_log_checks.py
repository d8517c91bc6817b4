"""The checks of `deltasql.testing.delta_log` see what is wrong, and pass what is right."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.spec import codec
from deltasql.spec.actions import CdcFile, CommitInfo, DomainMetadata, Txn, UnknownAction
from deltasql.testing.delta_log import check_checkpoint, check_commit_file
from tests.unit import actions_model as model
from tests.unit.delta_log.checkpoint_model import classic, source

STATE = model.state(features=("deletionVectors",))
COMMIT = codec.encode_commit(
    [
        CommitInfo(in_commit_timestamp=5, operation="WRITE", extra={"z": None, "a": [1.50]}),
        STATE.protocol,
        STATE.metadata,
        DomainMetadata(domain="d", configuration="{}"),
        Txn(app_id="a", version=1),
        model.add("é", partition_values={"day": None}, stats=model.STATS, extra={"new": {"b": 1}}),
        model.add("b", deletion_vector=model.vector()),
        model.remove("b"),
        CdcFile(path="c", size=1),
        UnknownAction("zebra", {"x": None}),
    ]
)


def test_commits_of_the_codec_pass():
    actions = check_commit_file(COMMIT, 0)
    assert actions[0][0] == "commitInfo"
    assert len(actions) == 10


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"version":1}}', b'"version":1}} ', "compact"),
        (b'"appId":"a","version":1', b'"version":1,"appId":"a"', "sorted"),
        (b'"appId":"a","version":1', b'"appId":"a","lastUpdated":null,"version":1', "lastUpdated"),
        (b'"version":1}}', b'"version":"1"}}', "txn.version"),
        (b'"version":1}}', b'"version":1.0}}', "txn.version"),
        (b'"appId":"a",', b"", "lacks appId"),
        (b'"appId":"a",', b'"appId":"a","appId":"a",', "repeated"),
        (b'{"txn":', b'{"add":1,"txn":', "one action"),
        (b'"inCommitTimestamp":5,', b"", "inCommitTimestamp"),
        (b'{"cdc":{"dataChange":false', b'{"cdc":{"dataChange":true', "cdc.dataChange"),
        (b'"minReaderVersion":3', b'"minReaderVersion":1', "rule 38"),
        (b'{"day":null}', b'{"day":1}', "partitionValues"),
        (b'"stats":"{', b'"stats":"[{', "add.stats"),
        (b'"storageType":"u"', b'"storageType":"x"', "storageType"),
        (b'"sizeInBytes":34', b'"sizeInBytes":2147483648', "sizeInBytes"),
        (b"\n", b"\n\n", "line 2 is not JSON"),
        (b"\n", b"\r\n", "compact"),
    ],
)
def test_slips_are_seen(old, new, message):
    assert old in COMMIT
    broken = COMMIT.replace(old, new)
    with pytest.raises(AssertionError, match=message):
        check_commit_file(broken, 0)


def test_rule_4_version_0_has_protocol_and_metadata():
    only = codec.encode_commit([CommitInfo(in_commit_timestamp=5), Txn(app_id="a", version=1)])
    check_commit_file(only, 1)
    with pytest.raises(AssertionError, match="rule 4"):
        check_commit_file(only, 0)


@pytest.mark.parametrize(
    "actions",
    [
        [model.add("a"), model.add("a", deletion_vector=model.vector())],
        [model.remove("a"), model.remove("a", deletion_vector=model.vector())],
        [model.add("a"), model.remove("a")],
        [Txn(app_id="a", version=1), Txn(app_id="a", version=2)],
    ],
)
def test_rule_6_nothing_is_said_twice(actions):
    body = codec.encode_commit([CommitInfo(in_commit_timestamp=5), *actions])
    with pytest.raises(AssertionError, match="rule 6"):
        check_commit_file(body, 3)


def test_order_of_kinds():
    lines = COMMIT.splitlines(keepends=True)
    with pytest.raises(AssertionError, match="first"):
        check_commit_file(b"".join([*lines[1:], lines[0]]), 0, canonical=False)
    swapped = b"".join([lines[0], *lines[:0:-1]])
    with pytest.raises(AssertionError, match="order"):
        check_commit_file(swapped, 0)
    check_commit_file(swapped, 0, canonical=False)


# --- checkpoints ----------------------------------------------------------------------


def changed(change) -> bytes:
    """A checkpoint whose rows went through `change`."""
    _, _, content = classic(source(STATE, [model.add("a")], [model.remove("b")]))
    table = pq.read_table(io.BytesIO(content))
    rows = change(table.to_pylist())
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), sink, compression="snappy")
    return sink.getvalue()


def test_a_rewritten_checkpoint_passes():
    check_checkpoint(changed(lambda rows: rows))


def merge(rows):
    return [{name: rows[0][name] or rows[1][name] for name in rows[0]}, *rows[2:]]


def live_tombstone(rows):
    rows[3]["remove"]["path"] = "a"
    return rows


def data_change(rows):
    rows[2]["add"]["dataChange"] = True
    return rows


def no_features(rows):
    rows[0]["protocol"]["readerFeatures"] = None
    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "0 protocol"),
        (lambda rows: [*rows, rows[1]], "2 metaData"),
        (lambda rows: [*rows, rows[2]], "said twice"),
        (merge, "2 actions"),
        (live_tombstone, "rule 12"),
        (data_change, "rule 29"),
        (no_features, "rule 38"),
    ],
)
def test_slips_in_checkpoints_are_seen(change, message):
    with pytest.raises(AssertionError, match=message):
        check_checkpoint(changed(change))


def test_wrong_types_are_seen():
    _, _, content = classic(source(STATE))
    table = pq.read_table(io.BytesIO(content))
    wide = pa.struct([("minReaderVersion", pa.int64())])
    place = table.schema.get_field_index("protocol")
    table = table.set_column(place, "protocol", pa.nulls(table.num_rows, wide))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="snappy")
    with pytest.raises(AssertionError, match="minReaderVersion"):
        check_checkpoint(sink.getvalue())


def test_other_compression_is_seen():
    _, _, content = classic(source(STATE))
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(content)), sink, compression="zstd")
    with pytest.raises(AssertionError, match="ZSTD"):
        check_checkpoint(sink.getvalue())
