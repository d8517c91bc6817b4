"""The version checksum `V.crc`: what the table is at a version, for readers that verify.

Only exact values go in; optional fields that are unknown are left out (rule 35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, Metadata, Protocol
from deltasql.spec.properties import TXN_RETENTION
from deltasql.store.interface import TxnRecord
from deltasql.store.mirroring.interface import Totals

# The file is written with every commit, so a long list would cost every time.
MOST_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class Added:
    """What a commit file adds to the totals, and whether it changes metadata or protocol."""

    files: int
    size_bytes: int
    is_change: bool


def added_by(body: bytes, *, source: str) -> Added:
    """The sums over a commit's adds; quick and by line, since every commit pays for it."""
    try:
        lines = [orjson.loads(line) for line in body.splitlines() if line]
        sizes = [line["add"]["size"] for line in lines if line.get("add")]
        is_change = any(line.get("metaData") or line.get("protocol") for line in lines)
    except (ValueError, TypeError, KeyError, AttributeError):
        # Only our codec reads numbers beyond 64 bits, or an action that is null.
        actions = codec.decode_commit(body, source=source)
        sizes = [action.size for action in actions if isinstance(action, AddFile)]
        is_change = any(isinstance(action, Metadata | Protocol) for action in actions)
    return Added(len(sizes), sum(sizes), is_change)


def actions_in(body: bytes) -> int:
    """How many actions a commit file has that a checkpoint might have to repeat: one per line,
    without the commitInfo.
    """
    return max(1, body.count(b"\n") + (not body.endswith(b"\n")) - 1)


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
    # With a retention, the reader's clock decides which transactions are live.
    if txns is not None and len(txns) <= MOST_LISTED and TXN_RETENTION not in state.properties:
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
