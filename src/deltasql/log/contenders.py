"""The two sides of a conflict: what a transaction read and does, and a commit that was faster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from deltasql.log.predicates.ast import Or, Predicate
from deltasql.log.state import Isolation, TableState
from deltasql.spec.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)
from deltasql.spec.properties import ROW_TRACKING_DOMAIN

FileKey: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reads:
    """What a transaction read: nothing, everything, or the rows of a predicate.

    `files` names the files whose rows it used, if that is known.
    """

    everything: bool = False
    predicate: Predicate | None = None
    files: frozenset[FileKey] | None = None

    @classmethod
    def nothing(cls) -> Reads:
        """For writers that read nothing."""
        return _NOTHING

    @classmethod
    def all(cls) -> Reads:
        """For writers that depend on every row."""
        return cls(everything=True)

    @classmethod
    def where(cls, predicate: Predicate, *, files: frozenset[FileKey] | None = None) -> Reads:
        """For writers that depend on the rows of a bound predicate."""
        return cls(predicate=predicate, files=files)

    @property
    def is_nothing(self) -> bool:
        """Whether the transaction read nothing."""
        return not self.everything and self.predicate is None and not self.files

    def joined(self, other: Reads) -> Reads:
        """Both together."""
        if self.everything or other.everything:
            return Reads.all()
        if self.is_nothing or other.is_nothing:
            return other if self.is_nothing else self
        predicates = tuple(p for p in (self.predicate, other.predicate) if p is not None)
        # If the files of one predicate are unknown, so are those of both.
        files = None
        if self.files is not None and other.files is not None:
            files = self.files | other.files
        elif any(item.files and item.predicate is None for item in (self, other)):
            # Files that no predicate describes would be forgotten.
            return Reads.all()
        return Reads(predicate=Or(predicates) if predicates else None, files=files)


# One for all: each small commit needs it, and the constructor is slow.
_NOTHING = Reads()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A commit that is about to be made: what it read and what it does."""

    reads: Reads
    read_version: int
    isolation: Isolation
    removed: frozenset[str]
    added: frozenset[str]
    app_ids: frozenset[str]
    domains: frozenset[str]
    has_metadata: bool
    has_protocol: bool
    only_rearranges: bool

    @classmethod
    def of(cls, actions: Iterable[Action], reads: Reads, state: TableState) -> Attempt:
        """The attempt to commit `actions` after having read `reads` at `state`."""
        found: dict[type, list[Any]] = {}
        for action in actions:
            found.setdefault(type(action), []).append(action)
        files = [*found.get(AddFile, ()), *found.get(RemoveFile, ())]
        domains = frozenset(action.domain for action in found.get(DomainMetadata, ()))
        others = bool(found.keys() & {Metadata, Protocol, Txn}) or bool(
            domains - {ROW_TRACKING_DOMAIN}
        )
        return cls(
            reads=reads,
            read_version=state.version,
            isolation=state.isolation,
            removed=frozenset(action.path for action in found.get(RemoveFile, ())),
            added=frozenset(action.path for action in found.get(AddFile, ())),
            app_ids=frozenset(action.app_id for action in found.get(Txn, ())),
            domains=domains - {ROW_TRACKING_DOMAIN},
            has_metadata=Metadata in found,
            has_protocol=Protocol in found,
            only_rearranges=bool(files) and not others and not any(f.data_change for f in files),
        )


# Not slotted: `cached_property` stores its value in the instance.
@dataclass(frozen=True)
class Winner:
    """A commit that was made meanwhile."""

    version: int
    actions: Sequence[Action]

    @cached_property
    def _by_kind(self) -> dict[type, list[Any]]:
        found: dict[type, list[Any]] = {}
        for action in self.actions:
            found.setdefault(type(action), []).append(action)
        return found

    def all_of(self, kind: type) -> Sequence[Any]:
        """Its actions of one kind."""
        return self._by_kind.get(kind, ())

    @property
    def info(self) -> CommitInfo:
        """Its commitInfo; an empty one when it has none."""
        infos = self.all_of(CommitInfo)
        return infos[0] if infos else CommitInfo()

    @property
    def is_blind_append(self) -> bool:
        """Whether it says that it added rows without reading any."""
        return bool(self.info.is_blind_append) and not self.all_of(RemoveFile)

    @property
    def txn_id(self) -> str | None:
        """The id that its transaction gave itself."""
        return self.info.txn_id

    def __str__(self) -> str:
        return f"version {self.version} ({self.info.operation or 'unknown operation'!s:.80})"
