"""The version checksum `V.crc`: what the table is at a version, for readers that verify.

Only what is exact goes in; optional fields that are not known are left out (rule 35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.store.interface import TxnRecord
from deltasql.store.mirror_log import Totals

# The file is written with every commit, so that long lists would be paid for every time.
MOST_LISTED: Final = 100
_TXN_RETENTION: Final = "delta.setTransactionRetentionDuration"


def render_checksum(
    state: TableState,
    totals: Totals,
    *,
    txns: Sequence[TxnRecord] | None = None,
    domains: Mapping[str, str] | None = None,
) -> bytes:
    """The content of `V.crc`; the file is written after `V.json`, once."""
    fields: dict[str, Any] = {
        "tableSizeBytes": totals.size_bytes,
        "numFiles": totals.files,
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": codec.wire_fields(state.metadata),
        "protocol": codec.wire_fields(state.protocol),
    }
    if state.in_commit_timestamps:
        fields["inCommitTimestampOpt"] = state.in_commit_timestamp
    # With a retention, which transactions are live depends on the reader's clock.
    if txns is not None and len(txns) <= MOST_LISTED and _TXN_RETENTION not in state.properties:
        fields["setTransactions"] = [_txn(txn) for txn in sorted(txns, key=lambda t: t.app_id)]
    if domains is not None and len(domains) <= MOST_LISTED:
        fields["domainMetadata"] = [
            {"domain": name, "configuration": configuration, "removed": False}
            for name, configuration in sorted(domains.items())
        ]
    return codec.dumps(fields)


def _txn(txn: TxnRecord) -> dict[str, Any]:
    found: dict[str, Any] = {"appId": txn.app_id, "version": txn.txn_version}
    return found if txn.last_updated is None else found | {"lastUpdated": txn.last_updated}
