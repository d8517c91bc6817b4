"""Transactions over any number of tables."""

from deltasql.lake.transaction.table import TransactionTable
from deltasql.lake.transaction.transaction import Statement, Transaction

__all__ = ["Statement", "Transaction", "TransactionTable"]
