"""The commits that the log stores, turned into the rows that they must have left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Final

from deltasql.errors import DamagedLogError, DeltaSqlError
from deltasql.log.pruning.stats_columns import StatsColumn, stats_columns
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)
from deltasql.spec.schema import parse_schema
from deltasql.store.checking.interface import StoredCommit
from deltasql.store.interface import StateRecord
from deltasql.store.rows import CommitRows, to_rows

# How many actions of a commit are held at once.
_SLICE: Final = 20_000
_ADDS: Final = (AddFile,)
_NO_ADDS: Final = (RemoveFile, Txn, DomainMetadata, CdcFile, Metadata, Protocol)


class CommitReplay:
    """What commits leave current, starting from a state; None before the first."""

    def __init__(self, state: TableState | None) -> None:
        self.metadata = None if state is None else state.metadata
        self.metadata_version = -1 if state is None else state.metadata_version
        self.protocol = None if state is None else state.protocol
        self.protocol_version = -1 if state is None else state.protocol_version
        self._columns: tuple[StatsColumn, ...] = () if state is None else state.stats_columns

    def rows(self, commit: StoredCommit) -> Iterator[CommitRows]:
        """The rows of a commit, in pieces; `DamagedLogError` if its bytes have changed."""
        if sha256(commit.body).digest() != commit.digest:
            raise _lost(commit.version, "its bytes don't have the digest they were committed with")
        try:
            yield from self._rows(commit)
        except DamagedLogError:
            raise
        except DeltaSqlError as error:
            raise _lost(commit.version, f"{error.problem}: {error.cause}") from None

    def _rows(self, commit: StoredCommit) -> Iterator[CommitRows]:
        source = f"version {commit.version}"
        self._columns = self._columns_after(commit, source)
        if commit.body.count(b"\n") <= _SLICE:
            yield self._taken(commit.version, list(decoded(commit.body, source)))
            return
        # Removes go before adds, even if there are too many to hold at once.
        for kinds in (_NO_ADDS, _ADDS):
            lines = (item for item in decoded(commit.body, source) if isinstance(item, kinds))
            while piece := list(islice(lines, _SLICE)):
                yield self._taken(commit.version, piece)

    def _taken(self, version: int, actions: Sequence[Action]) -> CommitRows:
        for action in actions:
            if isinstance(action, Metadata):
                self.metadata, self.metadata_version = action, version
            elif isinstance(action, Protocol):
                self.protocol, self.protocol_version = action, version
        return to_rows(actions, self._columns)

    def _columns_after(self, commit: StoredCommit, source: str) -> tuple[StatsColumn, ...]:
        """The stats columns that a commit leaves; its metadata may come after its files."""
        if b'"metaData"' in commit.body:
            for action in decoded(commit.body, source, having=b'"metaData"'):
                if isinstance(action, Metadata):
                    schema = parse_schema(action.schema_string)
                    return stats_columns(schema, action.partition_columns, self._columns)
        return self._columns


def readable_state(record: StateRecord | None) -> TableState | None:
    """The state in the rows; None if they are gone or can't be read."""
    try:
        return None if record is None else record.parsed()
    except DeltaSqlError:
        return None


def decoded(body: bytes, source: str, *, having: bytes = b"") -> Iterator[Action]:
    """The actions of a commit file, only from lines that contain `having`."""
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line and not line.isspace() and having in line:
            yield codec.decode(line, source=f"{source}:{number}")


def _lost(version: int, cause: str) -> DamagedLogError:
    return DamagedLogError(
        f"the commit of version {version} is damaged in SQL",
        cause=cause,
        remedy="restore its row of dl_table_versions from a backup; the mirror may have the bytes",
        version=version,
    )
