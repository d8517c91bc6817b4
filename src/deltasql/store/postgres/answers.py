"""The answer of the SQL functions to a commit: one text."""

from __future__ import annotations

from deltasql.store.interface import Committed, Head, NoTable, Outcome, TxnSeen, VersionTaken


def outcome_of(table_id: int, answer: str) -> Outcome:
    """The outcome that an answer of `dl_commit` describes."""
    outcome, *words = answer.split()
    numbers = [int(word) for word in words]
    match outcome:
        case "COMMITTED":
            return Committed(*numbers)
        case "TXN_SEEN":
            return TxnSeen(*numbers)
        case "VERSION_TAKEN":
            version, ict, metadata_version, protocol_version = numbers
            return VersionTaken(Head(table_id, version, ict, 0, metadata_version, protocol_version))
        case _:
            return NoTable()
