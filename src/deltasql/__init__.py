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
    from deltasql.data.writing.properties import BloomFilter, ColumnProperties, WriterProperties
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
    from deltasql.lake.adoption import AbandonedAdoption, AdoptionReport
    from deltasql.lake.appending import Appender
    from deltasql.lake.catalog import AuditEntry, Lake, connect
    from deltasql.lake.dml.merge_builder import MergeBuilder
    from deltasql.lake.dml.result import WriteResult
    from deltasql.lake.history import Change, HistoryEntry
    from deltasql.lake.scan import Scan
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table
    from deltasql.lake.transaction import Transaction, TransactionTable
    from deltasql.lake.upkeep.background import MaintenanceJob
    from deltasql.lake.upkeep.checks import CheckReport, RebuildReport, TableCheck
    from deltasql.lake.upkeep.maintaining import (
        Leftover,
        RestoreReport,
        SessionInfo,
        VacuumReport,
    )
    from deltasql.lake.upkeep.purging import DroppedTable, PurgeReport
    from deltasql.lake.upkeep.recovering import RecoveredTable, RecoveryReport
    from deltasql.maintenance.expiring import ExpireReport
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
    "AbandonedAdoption",
    "AddFile",
    "AdoptionReport",
    "Appender",
    "AuditEntry",
    "BloomFilter",
    "CdcFile",
    "Change",
    "CheckReport",
    "ColumnProperties",
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
    "ExpireReport",
    "ExportReport",
    "Format",
    "HistoryEntry",
    "Lake",
    "Leftover",
    "LocationTakenError",
    "LogFormatError",
    "MaintenanceJob",
    "MergeBuilder",
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
    "WriteResult",
    "WriterProperties",
    "__version__",
    "connect",
]

# Each module is loaded when something of it is first asked for: the command line's help, and
# Spark's executors, need neither pyarrow nor a driver.
_MODULES = {
    "ExportReport": "deltasql.adoption.exporting",
    "BloomFilter": "deltasql.data.writing.properties",
    "ColumnProperties": "deltasql.data.writing.properties",
    "WriterProperties": "deltasql.data.writing.properties",
    "AbandonedAdoption": "deltasql.lake.adoption",
    "AdoptionReport": "deltasql.lake.adoption",
    "Appender": "deltasql.lake.appending",
    "AuditEntry": "deltasql.lake.catalog",
    "Lake": "deltasql.lake.catalog",
    "connect": "deltasql.lake.catalog",
    "MaintenanceJob": "deltasql.lake.upkeep.background",
    "CheckReport": "deltasql.lake.upkeep.checks",
    "RebuildReport": "deltasql.lake.upkeep.checks",
    "TableCheck": "deltasql.lake.upkeep.checks",
    "ExpireReport": "deltasql.maintenance.expiring",
    "RestoreReport": "deltasql.lake.upkeep.maintaining",
    "SessionInfo": "deltasql.lake.upkeep.maintaining",
    "VacuumReport": "deltasql.lake.upkeep.maintaining",
    "Leftover": "deltasql.lake.upkeep.maintaining",
    "DroppedTable": "deltasql.lake.upkeep.purging",
    "PurgeReport": "deltasql.lake.upkeep.purging",
    "Scan": "deltasql.lake.scan",
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
    "MergeBuilder": "deltasql.lake.dml.merge_builder",
    "WriteResult": "deltasql.lake.dml.result",
    "Change": "deltasql.lake.history",
    "HistoryEntry": "deltasql.lake.history",
    "RecoveredTable": "deltasql.lake.upkeep.recovering",
    "RecoveryReport": "deltasql.lake.upkeep.recovering",
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
