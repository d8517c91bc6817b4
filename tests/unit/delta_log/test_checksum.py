"""`V.crc` says what is exact, and the same bytes each time."""

from __future__ import annotations

import json

from deltasql.delta_log.checksum import MOST_LISTED, render_checksum
from deltasql.spec import codec
from deltasql.store.interface import TxnRecord
from deltasql.store.mirroring.interface import Totals
from tests.unit import actions_model as model

TOTALS = Totals(7, files=3, size_bytes=2**40)
TXNS = (TxnRecord("b", 1, None, 3), TxnRecord("a", 9, 77, 2))


def test_rule_35_required_fields_and_their_names():
    state = model.state()
    content = render_checksum(state, TOTALS, txns=None, domains=None)
    assert json.loads(content) == {
        "tableSizeBytes": 2**40,
        "numFiles": 3,
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": json.loads(codec.encode(state.metadata))["metaData"],
        "protocol": json.loads(codec.encode(state.protocol))["protocol"],
    }


def test_rule_35_time_is_there_exactly_when_it_is_in_commits():
    on = model.state(delta_enableInCommitTimestamps="true")
    assert json.loads(render_checksum(on, TOTALS, txns=(), domains={}))["inCommitTimestampOpt"] == 1
    off = render_checksum(model.state(), TOTALS, txns=(), domains={})
    assert "inCommitTimestampOpt" not in json.loads(off)


def test_rule_35_txns_and_live_domains():
    content = render_checksum(model.state(), TOTALS, txns=TXNS, domains={"y": "{}", "x": "1"})
    found = json.loads(content)
    assert found["setTransactions"] == [
        {"appId": "a", "version": 9, "lastUpdated": 77},
        {"appId": "b", "version": 1},
    ]
    assert found["domainMetadata"] == [
        {"domain": "x", "configuration": "1", "removed": False},
        {"domain": "y", "configuration": "{}", "removed": False},
    ]
    assert content == render_checksum(
        model.state(), TOTALS, txns=TXNS[::-1], domains={"x": "1", "y": "{}"}
    )


def test_rule_36_what_is_not_exact_is_left_out():
    kept = model.state(delta_setTransactionRetentionDuration="interval 1 day")
    assert "setTransactions" not in json.loads(render_checksum(kept, TOTALS, txns=TXNS, domains={}))
    many = [TxnRecord(f"a{n}", 1, None, 1) for n in range(MOST_LISTED + 1)]
    found = json.loads(render_checksum(model.state(), TOTALS, txns=many, domains=None))
    assert not {"setTransactions", "domainMetadata", "numDeletionVectorsOpt"} & set(found)
