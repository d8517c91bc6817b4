"""What a check finds and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from deltasql.showing.report import Report

# Further findings of one table are counted, not kept.
MOST_FINDINGS: Final = 1_000

_REBUILD: Final = "lake.rebuild() rebuilds the rows from the commits"
_REPAIR: Final = "mirror.repair() moves it aside and writes it again"
_RESTORE: Final = (
    "restore the row of dl_table_versions from a backup; the mirror may have the bytes"
)
_FIRST: Final = (
    "lake.rebuild() takes it from the checkpoint that the table was adopted with, if the mirror "
    "still has it; else restore a backup"
)
_PLACE: Final = (
    "as the log's owner, write the place of its location into dl_places, or restore that row from "
    "a backup; until then, create and purge no table there"
)
_UNCHECKED: Final = "lake.check() of this table alone raises the error, with its remedy"
# What stands beside the rows that commits leave.
_BESIDE: Final = frozenset({"checkpoint", "place"})


class Kind(StrEnum):
    """What a finding is about."""

    COMMIT = "commit"
    VERSION = "version"
    FIRST_STATE = "first state"
    LIVE_FILE = "live file"
    DEAD_FILE = "dead file"
    HEAD = "head"
    TABLE = "table"
    PLACE = "place"
    METADATA = "metadata"
    PROTOCOL = "protocol"
    TXN = "txn"
    DOMAIN = "domain"
    CHANGE_FILE = "change file"
    PARTITION = "partition"
    CHECKPOINT = "checkpoint"
    UNCHECKED = "unchecked"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        others = {
            Kind.COMMIT: _RESTORE,
            Kind.FIRST_STATE: _FIRST,
            Kind.CHECKPOINT: _REPAIR,
            Kind.PLACE: _PLACE,
            Kind.UNCHECKED: _UNCHECKED,
        }
        return others.get(self, _REBUILD)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in SQL or in the mirror that differs from what the commits say.

    `path` names the file, the application, the domain or the object, depending on the kind.
    """

    kind: Kind
    version: int | None
    path: str | None
    problem: str

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.kind.remedy


@dataclass(slots=True, kw_only=True)
class TableCheck:
    """What a check found in a table at `version`.

    `since` is the version after which replay began: -1 for the very beginning, else one that was
    proven before or that the table was adopted with. `files` counts live files; the first
    `findings` are kept, and `omitted` counts the rest.
    """

    table: str
    version: int
    since: int = -1
    files: int = 0
    findings: list[Finding] = field(default_factory=list)
    omitted: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything is what the commits say."""
        return not self.findings

    @property
    def rows_ok(self) -> bool:
        """Whether the rows are; a checkpoint in the mirror, or its place, may still be wrong."""
        return all(finding.kind in _BESIDE for finding in self.findings)

    def found(
        self, kind: Kind, problem: str, *, version: int | None = None, path: str | None = None
    ) -> None:
        """Add a finding."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(kind, version, path or None, problem))
        else:
            self.omitted += 1


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Report):
    """What a check found, by the tables' names."""

    tables: Mapping[str, TableCheck] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every table is what its commits say."""
        return all(table.ok for table in self.tables.values())


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """How far a check or a rebuild has got: the last version replayed, and the newest one."""

    table: str
    version: int
    newest: int
