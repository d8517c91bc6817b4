"""Action reconciliation: the state of a table from the commits of its log, in order.

The SQL log keeps this state itself; replay is for logs from elsewhere, and for proving that
both agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from deltasql.errors import LogFormatError
from deltasql.spec.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)

FileKey: TypeAlias = tuple[str, str]


class Replay:
    """The state after the commits applied so far.

    A logical file is a path with a deletion vector's id, '' without one; the newest action
    about it wins, so no key is in both `files` and `tombstones`.
    """

    __slots__ = (
        "domains",
        "files",
        "metadata",
        "protocol",
        "tombstones",
        "txns",
        "version",
    )

    def __init__(self) -> None:
        self.version: int | None = None
        self.files: dict[FileKey, AddFile] = {}
        self.tombstones: dict[FileKey, RemoveFile] = {}
        self.txns: dict[str, Txn] = {}
        self.domains: dict[str, DomainMetadata] = {}
        self.metadata: Metadata | None = None
        self.protocol: Protocol | None = None

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        """Apply the next commit; the first may have any version."""
        if self.version is not None and version != self.version + 1:
            raise LogFormatError(
                f"version {version} can't follow version {self.version}",
                cause="versions are contiguous, so commits are missing or out of order",
                remedy="restore the missing commit files, or begin at a checkpoint",
                version=version,
            )
        self.version = version
        for action in actions:
            self._take(action)

    def _take(self, action: Action) -> None:
        match action:
            case AddFile() | RemoveFile():
                self._take_file(action)
            case Txn():
                # The latest, not the largest: a version may go down.
                self.txns[action.app_id] = action
            case DomainMetadata():
                self.domains.pop(action.domain, None)
                if not action.removed:
                    self.domains[action.domain] = action
            case Metadata():
                self.metadata = action
            case Protocol():
                self.protocol = action

    def _take_file(self, action: AddFile | RemoveFile) -> None:
        key = (action.path, action.dv_id)
        if isinstance(action, AddFile):
            self.tombstones.pop(key, None)
            self.files[key] = action
        else:
            self.files.pop(key, None)
            self.tombstones[key] = action

    def table(self) -> tuple[Protocol, Metadata]:
        """Protocol and metadata, or `LogFormatError` if the log lacks one of them."""
        if self.protocol is None or self.metadata is None:
            missing = "protocol" if self.protocol is None else "metaData"
            raise LogFormatError(
                f"the log has no {missing} up to version {self.version}",
                cause="version 0 must have one, and so must every checkpoint",
                remedy="restore the missing commit files from a copy",
                version=self.version,
            )
        return self.protocol, self.metadata
