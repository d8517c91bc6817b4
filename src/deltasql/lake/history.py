"""What the history of a table says about its versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltasql.errors import LogFormatError
from deltasql.log.timestamps import from_ms
from deltasql.spec import codec
from deltasql.spec.actions import Action
from deltasql.store.interface import VersionRecord


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A version in a table's history."""

    version: int
    timestamp: datetime
    operation: str | None
    operation_params: Mapping[str, Any]
    committer: str | None
    commit_id: str
    transaction_id: str | None
    is_blind_append: bool

    @classmethod
    def of(cls, record: VersionRecord) -> HistoryEntry:
        """The entry of a record."""
        return cls(
            version=record.version,
            timestamp=from_ms(record.in_commit_timestamp),
            operation=record.operation,
            operation_params=_params(record.operation_params or "{}"),
            committer=record.committer,
            commit_id=record.commit_id,
            transaction_id=record.transaction_id,
            is_blind_append=record.is_blind_append,
        )


def _params(text: str) -> Mapping[str, Any]:
    """The parameters; as they are where somebody's own SQL wrote them, so that what is listed with
    them can be seen.
    """
    try:
        found = codec.loads(text)
    except LogFormatError:
        found = text
    return found if isinstance(found, dict) else {"unreadable": text}


@dataclass(frozen=True, slots=True)
class Change:
    """What one version did."""

    version: int
    timestamp: datetime
    actions: tuple[Action, ...]
