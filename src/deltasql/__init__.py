"""Delta Lake tables whose transaction log lives in a SQL database.

    lake = deltasql.connect("sqlite:///lake.db")
    orders = lake.create_table("sales.orders", schema=arrow_schema)
    orders.append(arrow_table)
    orders.scan(where="amount > 100").to_arrow()

Commits are ordinary ACID transactions, over one table or many, and a snapshot is a query.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deltasql.version import __version__

if TYPE_CHECKING:
    from deltasql.adoption.exporting import ExportReport
    from deltasql.errors import (
        CommitError,
        CommitStateUnknownError,
        ConcurrentAppendError,
        ConcurrentDeleteDeleteError,
        ConcurrentDeleteReadError,
        ConcurrentTransactionError,
        ConfigError,
        DamagedLogError,
        DatabaseError,
        DeltaSqlError,
        LocationTakenError,
        LogFormatError,
        MetadataChangedError,
        MirrorConflictError,
        MirrorError,
        MirrorGapError,
        ProtocolChangedError,
        SchemaMismatchError,
        SchemaVersionError,
        StoreError,
        StoreTimeoutError,
        TableError,
        TableExistsError,
        TableNotFoundError,
        UnsupportedFeatureError,
        ValidationError,
        VersionConflictError,
        VersionNotFoundError,
    )
    from deltasql.lake.adoption import AdoptionReport
    from deltasql.lake.catalog import AuditEntry, Lake, connect
    from deltasql.lake.checks import CheckReport, RebuildReport, TableCheck
    from deltasql.lake.history import Change, HistoryEntry
    from deltasql.lake.maintaining import RestoreReport, SessionInfo, VacuumReport
    from deltasql.lake.purging import DroppedTable, PurgeReport
    from deltasql.lake.recovering import RecoveredTable, RecoveryReport
    from deltasql.lake.snapshot import Scan, Snapshot
    from deltasql.lake.table import Table
    from deltasql.lake.transaction import Transaction, TransactionTable
    from deltasql.spec.actions import (
        AddFile,
        CdcFile,
        CommitInfo,
        DeletionVector,
        DomainMetadata,
        Format,
        Metadata,
        Protocol,
        RemoveFile,
        Txn,
        UnknownAction,
    )

__all__ = [
    "AddFile",
    "AdoptionReport",
    "AuditEntry",
    "CdcFile",
    "Change",
    "CheckReport",
    "CommitError",
    "CommitInfo",
    "CommitStateUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConfigError",
    "DamagedLogError",
    "DatabaseError",
    "DeletionVector",
    "DeltaSqlError",
    "DomainMetadata",
    "DroppedTable",
    "ExportReport",
    "Format",
    "HistoryEntry",
    "Lake",
    "LocationTakenError",
    "LogFormatError",
    "Metadata",
    "MetadataChangedError",
    "MirrorConflictError",
    "MirrorError",
    "MirrorGapError",
    "Protocol",
    "ProtocolChangedError",
    "PurgeReport",
    "RebuildReport",
    "RecoveredTable",
    "RecoveryReport",
    "RemoveFile",
    "RestoreReport",
    "Scan",
    "SchemaMismatchError",
    "SchemaVersionError",
    "SessionInfo",
    "Snapshot",
    "StoreError",
    "StoreTimeoutError",
    "Table",
    "TableCheck",
    "TableError",
    "TableExistsError",
    "TableNotFoundError",
    "Transaction",
    "TransactionTable",
    "Txn",
    "UnknownAction",
    "UnsupportedFeatureError",
    "VacuumReport",
    "ValidationError",
    "VersionConflictError",
    "VersionNotFoundError",
    "__version__",
    "connect",
]

# Each module is loaded when something of it is first asked for: the command line's help, and
# Spark's executors, need neither pyarrow nor a driver.
_MODULES = {
    "ExportReport": "deltasql.adoption.exporting",
    "AdoptionReport": "deltasql.lake.adoption",
    "AuditEntry": "deltasql.lake.catalog",
    "Lake": "deltasql.lake.catalog",
    "connect": "deltasql.lake.catalog",
    "CheckReport": "deltasql.lake.checks",
    "RebuildReport": "deltasql.lake.checks",
    "TableCheck": "deltasql.lake.checks",
    "RestoreReport": "deltasql.lake.maintaining",
    "SessionInfo": "deltasql.lake.maintaining",
    "VacuumReport": "deltasql.lake.maintaining",
    "DroppedTable": "deltasql.lake.purging",
    "PurgeReport": "deltasql.lake.purging",
    "Scan": "deltasql.lake.snapshot",
    "Snapshot": "deltasql.lake.snapshot",
    "AddFile": "deltasql.spec.actions",
    "CdcFile": "deltasql.spec.actions",
    "CommitInfo": "deltasql.spec.actions",
    "DeletionVector": "deltasql.spec.actions",
    "DomainMetadata": "deltasql.spec.actions",
    "Format": "deltasql.spec.actions",
    "Metadata": "deltasql.spec.actions",
    "Protocol": "deltasql.spec.actions",
    "RemoveFile": "deltasql.spec.actions",
    "Txn": "deltasql.spec.actions",
    "UnknownAction": "deltasql.spec.actions",
    "Change": "deltasql.lake.history",
    "HistoryEntry": "deltasql.lake.history",
    "RecoveredTable": "deltasql.lake.recovering",
    "RecoveryReport": "deltasql.lake.recovering",
    "Table": "deltasql.lake.table",
    "Transaction": "deltasql.lake.transaction",
    "TransactionTable": "deltasql.lake.transaction",
}


if not TYPE_CHECKING:  # or checkers would believe in every name

    def __getattr__(name: str) -> Any:
        if name == "errors":
            return import_module("deltasql.errors")
        if name not in __all__:
            raise AttributeError(f"module 'deltasql' has no attribute {name!r}")
        value = getattr(import_module(_MODULES.get(name, "deltasql.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
