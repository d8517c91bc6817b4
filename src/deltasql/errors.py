"""Every failure that deltasql raises on purpose.

Each message says the problem, its cause and the remedy. Errors pickle, because they
cross Spark workers, and never carry a secret.

    DeltaSqlError
    ├── CommitError
    │   ├── VersionConflictError        the caller pinned a version and another one is there
    │   ├── ConcurrentAppendError       files were added to what the transaction had read
    │   ├── ConcurrentDeleteReadError   a file the transaction had read was removed
    │   ├── ConcurrentDeleteDeleteError a file the transaction removes was removed already
    │   ├── MetadataChangedError        schema, partitioning or properties changed meanwhile
    │   ├── ProtocolChangedError        the protocol changed meanwhile
    │   ├── ConcurrentTransactionError  the same application id committed meanwhile
    │   └── CommitStateUnknownError     the answer was lost and could not be asked for again
    ├── ValidationError                 the input can't be committed; nothing was written
    ├── TableError
    │   ├── TableNotFoundError
    │   ├── TableExistsError
    │   │   └── LocationTakenError      another table holds the place, or one around or within it
    │   ├── VersionNotFoundError
    │   └── SchemaMismatchError
    ├── LogFormatError                  a log or an action breaks the Delta spec
    │   └── UnsupportedFeatureError     … or needs a feature that deltasql lacks
    ├── StoreError
    │   ├── DatabaseError
    │   ├── StoreTimeoutError
    │   ├── SchemaVersionError
    │   └── DamagedLogError             a table's rows in SQL are not what its commits say
    ├── MirrorError
    │   ├── MirrorConflictError
    │   └── MirrorGapError
    └── ConfigError
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Final, Self

from deltasql.secrecy import redacted

_SHOWN: Final = ("problem", "cause", "remedy")


@dataclass(eq=False, repr=False)
class DeltaSqlError(Exception):
    """The root: catching it catches everything deltasql raises on purpose.

    `problem` says what failed, `cause` why, `remedy` what to do about it. Other facts have fields
    of their own, which are None if they don't apply.
    """

    problem: str
    _: KW_ONLY
    cause: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        # Whatever was passed is quoted somewhere: a URL in the place of a name, with its password.
        for name, value in vars(self).items():
            if isinstance(value, str) and (name in _SHOWN or "://" in value):
                setattr(self, name, redacted(value))
        super().__init__(self.problem)

    def __str__(self) -> str:
        text = self.problem
        if self.cause:
            text += f"\n  cause: {self.cause}"
        if self.remedy:
            text += f"\n  remedy: {self.remedy}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (
            type(self),
            {item.name: getattr(self, item.name) for item in fields(self)},
        )


def _rebuild(kind: type[DeltaSqlError], values: dict[str, Any]) -> DeltaSqlError:
    return kind(**values)


@dataclass(eq=False, repr=False, kw_only=True)
class CommitError(DeltaSqlError):
    """A commit did not happen, or its outcome is unknown."""

    version: int | None = None
    path: str | None = None
    domain: str | None = None
    app_id: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class VersionConflictError(CommitError):
    """The caller pinned `expected`, but the table is at `actual`."""

    expected: int | None = None
    actual: int | None = None


class ConcurrentAppendError(CommitError):
    """Files that the transaction would have read were added in the meantime."""


class ConcurrentDeleteReadError(CommitError):
    """A file that the transaction read was removed in the meantime."""


class ConcurrentDeleteDeleteError(CommitError):
    """A file that the transaction removes was removed in the meantime."""


class MetadataChangedError(CommitError):
    """The table's metadata changed in the meantime."""


class ProtocolChangedError(CommitError):
    """The table's protocol changed in the meantime."""


class ConcurrentTransactionError(CommitError):
    """Another transaction of the same application id committed in the meantime."""


@dataclass(eq=False, repr=False, kw_only=True)
class CommitStateUnknownError(CommitError):
    """The connection was lost, and it is unknown whether `commit_id` became a version."""

    commit_id: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class ValidationError(DeltaSqlError):
    """The input is malformed; nothing was locked and nothing written."""

    path: str | None = None
    key: str | None = None
    domain: str | None = None
    column: str | None = None
    position: int | None = None
    version: int | None = None
    features: tuple[str, ...] = ()


@dataclass(eq=False, repr=False, kw_only=True)
class TableError(DeltaSqlError):
    """A table, or a version of it, is not what the call needs."""

    version: int | None = None


class TableNotFoundError(TableError):
    """There is no table of that name."""

    @classmethod
    def named(
        cls, name: str, cause: str = "it was dropped", remedy: str = "see lake.tables()"
    ) -> Self:
        """The error for a table that is not, or no longer, in the lake."""
        return cls(f"there is no table {name}", cause=cause, remedy=remedy)


class TableExistsError(TableError):
    """There already is a table of that name."""


@dataclass(eq=False, repr=False, kw_only=True)
class LocationTakenError(TableExistsError):
    """Another table holds the location, or one around or within it."""

    table: str | None = None
    location: str | None = None


class VersionNotFoundError(TableError):
    """The table has no such version, or none at that time."""


@dataclass(eq=False, repr=False, kw_only=True)
class SchemaMismatchError(TableError):
    """The data does not fit the table's schema."""

    column: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class LogFormatError(DeltaSqlError):
    """A log violates the Delta spec."""

    version: int | None = None
    path: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class UnsupportedFeatureError(LogFormatError):
    """The table needs a Delta feature that deltasql does not have (see docs/features.md)."""

    features: tuple[str, ...] = ()


@dataclass(eq=False, repr=False, kw_only=True)
class StoreError(DeltaSqlError):
    """The SQL database, or the object store, failed.

    `is_refusal` says that nothing was done, and never will be. Only failures on a short list are
    refusals; after any other, the outcome is unknown. `is_transient` says that the same call may
    work soon.
    """

    is_refusal: bool = False
    is_transient: bool = False
    path: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class DatabaseError(StoreError):
    """The SQL database refused a request, or the connection to it was lost."""

    holder_pid: int | None = None


class StoreTimeoutError(StoreError):
    """A connection, a lock or an answer did not come in time."""


@dataclass(eq=False, repr=False, kw_only=True)
class SchemaVersionError(StoreError):
    """The database's schema is not the one this release works with."""

    found: int
    expected: int


@dataclass(eq=False, repr=False, kw_only=True)
class DamagedLogError(StoreError):
    """The rows of a table in SQL don't match its commits: somebody changed them by hand."""

    table: str | None = None
    version: int | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class MirrorError(DeltaSqlError):
    """The mirror could not be written or read."""

    version: int | None = None
    path: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class MirrorConflictError(MirrorError):
    """The mirror has other bytes than SQL for the same object."""

    is_prefix: bool = False


class MirrorGapError(MirrorError):
    """A version is missing in the mirror and blocks the ones after it."""


class ConfigError(DeltaSqlError):
    """A setting is unknown or ill-typed."""


def quoted(value: object) -> str:
    """A value as a message shows it: its beginning, or its type if it can't be written down."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        # Python refuses integers of thousands of digits.
        return f"a value of the type {type(value).__name__}"
