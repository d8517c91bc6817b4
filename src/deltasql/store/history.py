"""The interface for bulk history: a log written elsewhere, loaded part by part.

A table is staged first: its rows exist, but it has no head, and no name that it could be found by.
Parts follow in the order of versions, each in its own transaction; the last call gives the table
its head and its name, all at once. The loader holds the table's lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from deltasql.errors import TableExistsError
from deltasql.store.mirroring.interface import Lease
from deltasql.store.rows import Row


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A table whose history is being loaded; `newest` is the last version loaded."""

    table_id: int
    name: str
    location: str
    newest: int | None


class LoadedVersion(NamedTuple):
    """A version with its commit file, packed; `digest` is that of the plain bytes.

    An empty body stands for a version that is only known from a checkpoint.
    """

    version: int
    commit_id: str
    in_commit_timestamp: int
    committer: str | None
    operation: str | None
    operation_params: str
    is_blind_append: bool
    digest: bytes
    body_encoding: str
    body: bytes
    checkpoint_written: bool


def key_of_row(row: Row) -> bytes:
    """The key of the file of a row of `HistoryRows.adds` or `retired`."""
    _, path_key, dv_key, *_ = row
    return bytes(path_key) + bytes(dv_key)


@dataclass(slots=True, kw_only=True)
class HistoryRows:
    """Some more of a history, in the order in which the fields are written.

    `times_before` is a version and its time: anything loaded before it that is not earlier is moved
    to the milliseconds before that. `retired` rows end files of earlier parts, each
    (removed_version, *REMOVE_COLUMNS); without an action, an add restated the file, and if none is
    live, nothing happens. `adds` are live at the end of the part, each (version, *ADD_COLUMNS);
    `dead` came and went within it, followed by removed_version, deletion_timestamp,
    remove_data_change and remove_action. `chunks` are more of `adds`, as `HistoryLog.add_chunk`
    makes them. The other rows start with the version, too.
    """

    times_before: tuple[int, int] | None = None
    retired: list[Row] = field(default_factory=list)
    adds: list[Row] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    dead: list[Row] = field(default_factory=list)
    txns: list[Row] = field(default_factory=list)
    domains: list[Row] = field(default_factory=list)
    cdc: list[Row] = field(default_factory=list)
    metadata: list[Row] = field(default_factory=list)
    protocol: list[Row] = field(default_factory=list)
    partitions: list[Row] = field(default_factory=list)
    versions: list[LoadedVersion] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEnd:
    """What a loaded table becomes: its head, and what `dl_tables` says of it.

    `replaces` is a table that gives up its name at the same moment.
    """

    name: str
    version: int
    last_ict: int
    earliest_version: int
    metadata_version: int
    protocol_version: int
    min_reader: int
    min_writer: int
    properties: str
    read_only_reason: str | None = None
    replaces: int | None = None


class HistoryLog(Protocol):
    """Loads histories. A call with a lease returns False once another process has that lease."""

    @property
    def add_chunk(self) -> Callable[[int, Sequence[Row]], bytes]:
        """Makes a chunk of `HistoryRows` from a table's id and rows; a function of a module, which
        other processes can import without any driver.
        """

    def stage_table(self, name: str, location: str) -> int:
        """The id of a table that nobody sees yet: a new one, or the one staged at the location.

        Raises `LocationTakenError` if another table holds the place, unless it was dropped or may
        not be written.
        """

    def staged_tables(self) -> list[StagedTable]:
        """Tables that were staged and not finished."""

    def load_history(self, lease: Lease, rows: HistoryRows) -> bool:
        """Write a part, all or nothing."""

    def trim_history(self, lease: Lease, *, after: int) -> bool:
        """Delete whatever is loaded of versions above `after`, including incomplete ones."""

    def finish_history(self, lease: Lease, end: HistoryEnd) -> bool:
        """Make the table visible, alone at its place; `TableExistsError` if a live one has its
        name, or is written at its location.
        """

    def read_only_reason(self, table_id: int) -> str | None:
        """Why a table may not be written; None if it may."""

    def set_read_only(self, table_id: int, reason: str | None) -> bool:
        """Forbid writing a table, or allow it again; False if it is gone."""


# Files become live again before the rows that say so are deleted.
TRIMS: Final = (
    "history_trim_adds",
    "history_trim_back",
    "history_trim_dead",
    "history_trim_txns",
    "history_trim_domains",
    "history_trim_cdc",
    "history_trim_metadata",
    "history_trim_protocol",
    "history_trim_status",
    "history_trim_versions",
)


def name_taken(name: str) -> TableExistsError:
    """The error for a name that a live table has."""
    return TableExistsError(
        f"there is already a table {name}",
        cause="it was created while this one was being loaded",
        remedy="choose another name; what was loaded so far is kept",
    )
