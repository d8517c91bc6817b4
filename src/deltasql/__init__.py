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
    from deltasql.adoptions import AdoptionReport
    from deltasql.catalog import AuditEntry, Lake, connect
    from deltasql.checks import CheckReport, RebuildReport, TableCheck
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
    from deltasql.history import Change, HistoryEntry
    from deltasql.purging import DroppedTable, PurgeReport
    from deltasql.recovering import RecoveredTable, RecoveryReport
    from deltasql.snapshot import Scan, Snapshot
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
    from deltasql.table import Table
    from deltasql.transaction import Transaction, TransactionTable

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
    "Scan",
    "SchemaMismatchError",
    "SchemaVersionError",
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
    "AdoptionReport": "deltasql.adoptions",
    "AuditEntry": "deltasql.catalog",
    "Lake": "deltasql.catalog",
    "connect": "deltasql.catalog",
    "CheckReport": "deltasql.checks",
    "RebuildReport": "deltasql.checks",
    "TableCheck": "deltasql.checks",
    "DroppedTable": "deltasql.purging",
    "PurgeReport": "deltasql.purging",
    "Scan": "deltasql.snapshot",
    "Snapshot": "deltasql.snapshot",
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
    "Change": "deltasql.history",
    "HistoryEntry": "deltasql.history",
    "RecoveredTable": "deltasql.recovering",
    "RecoveryReport": "deltasql.recovering",
    "Table": "deltasql.table",
    "Transaction": "deltasql.transaction",
    "TransactionTable": "deltasql.transaction",
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
