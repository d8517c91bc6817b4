"""Delta Lake tables whose transaction log lives in a SQL database.

    lake = deltasql.connect("sqlite:///lake.db")
    orders = lake.create_table("sales.orders", schema=arrow_schema)
    orders.append(arrow_table)
    orders.scan(where="amount > 100").to_arrow()

Commits are ordinary ACID transactions, over one table or many, and a snapshot is a query.
"""

from deltasql.adoption.exporting import ExportReport
from deltasql.adoptions import AdoptionReport
from deltasql.catalog import AuditEntry, Lake, connect
from deltasql.errors import (
    CommitError,
    CommitStateUnknownError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    ConfigError,
    DatabaseError,
    DeltaSqlError,
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
from deltasql.table import Change, HistoryEntry, Table
from deltasql.transaction import Transaction, TransactionTable
from deltasql.version import __version__

__all__ = [
    "AddFile",
    "AdoptionReport",
    "AuditEntry",
    "CdcFile",
    "Change",
    "CommitError",
    "CommitInfo",
    "CommitStateUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConfigError",
    "DatabaseError",
    "DeletionVector",
    "DeltaSqlError",
    "DomainMetadata",
    "ExportReport",
    "Format",
    "HistoryEntry",
    "Lake",
    "LogFormatError",
    "Metadata",
    "MetadataChangedError",
    "MirrorConflictError",
    "MirrorError",
    "MirrorGapError",
    "Protocol",
    "ProtocolChangedError",
    "RemoveFile",
    "Scan",
    "SchemaMismatchError",
    "SchemaVersionError",
    "Snapshot",
    "StoreError",
    "StoreTimeoutError",
    "Table",
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
