"""The contract of a log store, for pytest.

A subclass gives the fixture `log_store`: a callable that opens stores, all on one database
that was empty when the test began. A store whose `locks_tables_apart` is False may let the
writers of all tables wait for a lock on one of them.
"""

from __future__ import annotations

from deltasql.testing.commit_contract import CommitContract
from deltasql.testing.history_contract import HistoryContract
from deltasql.testing.lock_contract import LockContract
from deltasql.testing.outcome_contract import OutcomeContract
from deltasql.testing.read_contract import ReadContract
from deltasql.testing.replay_contract import ReplayContract
from deltasql.testing.table_contract import TableContract
from deltasql.testing.trust_contract import TrustContract


class LogStoreContract(
    TableContract,
    CommitContract,
    ReadContract,
    ReplayContract,
    LockContract,
    OutcomeContract,
    HistoryContract,
    TrustContract,
):
    """Everything that a log store must do, as tests."""
