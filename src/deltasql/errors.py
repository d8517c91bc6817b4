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

from typing import Any


class DeltaSqlError(Exception):
    """The root: catching it catches everything deltasql raises on purpose.

    `problem` says what failed, `cause` why, `remedy` what to do about it; keyword
    details become attributes.
    """

    def __init__(self, problem: str, *, cause: str = "", remedy: str = "", **details: Any) -> None:
        super().__init__(problem, cause, remedy, details)
        self.problem = problem
        self.cause = cause
        self.remedy = remedy
        self.details = details

    def __getattr__(self, name: str) -> Any:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __str__(self) -> str:
        text = self.problem
        if self.cause:
            text += f"\n  cause: {self.cause}"
        if self.remedy:
            text += f"\n  remedy: {self.remedy}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.problem, self.cause, self.remedy, self.details)


def _rebuild(
    kind: type[DeltaSqlError], problem: str, cause: str, remedy: str, details: dict[str, Any]
) -> DeltaSqlError:
    return kind(problem, cause=cause, remedy=remedy, **details)


class CommitError(DeltaSqlError):
    """A commit did not happen, or its outcome is unknown."""


class VersionConflictError(CommitError):
    """The caller pinned `expected` and the table is at `actual`."""


class ConcurrentAppendError(CommitError):
    """Files were added meanwhile that the transaction would have read."""


class ConcurrentDeleteReadError(CommitError):
    """A file that the transaction read was removed meanwhile."""


class ConcurrentDeleteDeleteError(CommitError):
    """A file that the transaction removes was removed meanwhile."""


class MetadataChangedError(CommitError):
    """The table's metadata changed meanwhile."""


class ProtocolChangedError(CommitError):
    """The table's protocol changed meanwhile."""


class ConcurrentTransactionError(CommitError):
    """Another transaction of the same application id committed meanwhile."""


class CommitStateUnknownError(CommitError):
    """The connection was lost, and it is not known whether `commit_id` became a version."""


class ValidationError(DeltaSqlError):
    """The input is malformed; nothing was locked and nothing written."""


class TableError(DeltaSqlError):
    """A table, or a version of it, is not what the call needs."""


class TableNotFoundError(TableError):
    """No table of that name."""


class TableExistsError(TableError):
    """A table of that name exists already."""


class LocationTakenError(TableExistsError):
    """Another table holds the location, or one around or within it."""


class VersionNotFoundError(TableError):
    """The table has no such version, or none at that time."""


class SchemaMismatchError(TableError):
    """The data does not fit the table's schema."""


class LogFormatError(DeltaSqlError):
    """A log breaks the Delta spec."""


class UnsupportedFeatureError(LogFormatError):
    """The table needs a Delta feature that deltasql does not have (see docs/features.md)."""


class StoreError(DeltaSqlError):
    """The SQL database, or the object store, failed.

    `is_refusal` says that nothing was done, and never will be: only what stands on a short list
    is one, and after any other failure nobody knows. `is_transient` says that the same call may
    work soon.
    """

    def __init__(
        self,
        problem: str,
        *,
        cause: str = "",
        remedy: str = "",
        is_refusal: bool = False,
        is_transient: bool = False,
        **details: Any,
    ) -> None:
        facts = {"is_refusal": is_refusal, "is_transient": is_transient, **details}
        super().__init__(problem, cause=cause, remedy=remedy, **facts)
        self.is_refusal = is_refusal
        self.is_transient = is_transient


class DatabaseError(StoreError):
    """The SQL database refused or was lost."""


class StoreTimeoutError(StoreError):
    """No connection or no lock became available in time."""


class SchemaVersionError(StoreError):
    """The database's schema is not the one this release works with."""


class DamagedLogError(StoreError):
    """The rows of a table in SQL are not what its commits say: somebody changed them by hand."""


class MirrorError(DeltaSqlError):
    """The mirror could not be written or read."""


class MirrorConflictError(MirrorError):
    """The mirror holds other bytes than SQL for the same object."""


class MirrorGapError(MirrorError):
    """A version is missing in the mirror and blocks the ones after it."""


class ConfigError(DeltaSqlError):
    """A setting is unknown or ill-typed."""
