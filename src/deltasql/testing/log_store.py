"""The contract of a log store, for pytest.

A subclass provides the fixture `log_store`: a callable that opens stores, all on one database that
was empty when the test began. A store whose `locks_tables_apart` is False may make the writers of
all tables wait for a lock on one of them.
"""

from __future__ import annotations

from deltasql.testing.contracts.browsing import BrowseContract
from deltasql.testing.contracts.checking import TrustContract
from deltasql.testing.contracts.commits import CommitContract
from deltasql.testing.contracts.expiring import ExpiryContract
from deltasql.testing.contracts.history import HistoryContract
from deltasql.testing.contracts.jobs import JobContract, NamespaceContract, OptimizeContract
from deltasql.testing.contracts.leases import LeaseContract
from deltasql.testing.contracts.locks import LockContract
from deltasql.testing.contracts.mirroring import MirrorContract
from deltasql.testing.contracts.outcomes import OutcomeContract
from deltasql.testing.contracts.reading import ReadContract
from deltasql.testing.contracts.replay import ReplayContract
from deltasql.testing.contracts.tables import TableContract
from deltasql.testing.contracts.upkeep import UpkeepContract


class LogStoreContract(
    TableContract,
    CommitContract,
    ReadContract,
    ReplayContract,
    LockContract,
    OutcomeContract,
    HistoryContract,
    TrustContract,
    LeaseContract,
    MirrorContract,
    UpkeepContract,
    ExpiryContract,
    JobContract,
    NamespaceContract,
    OptimizeContract,
    BrowseContract,
):
    """Everything that a log store must do, as tests."""
