"""The interface to the servers of a database: who answers, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from deltasql.store.interface import TxnLogReader


class ServerLog(Protocol):
    """What a log store tells about its servers; an embedded database has none."""

    @property
    def reads(self) -> TxnLogReader:
        """Where snapshots, files and history are read: a replica if there is one, and itself
        otherwise. What decides about a commit or a deletion asks the store itself.
        """

    @property
    def takeovers(self) -> int:
        """How often another server has taken over since this store was opened: a standby, or a
        restored one. The new server may lack acknowledged commits.
        """

    def pool_usage(self) -> tuple[int, int]:
        """Connections in use, and threads waiting for one."""

    def describe(self) -> Mapping[str, str]:
        """Dialect, server version and durability settings, for reports; no secrets."""

    def replica(self) -> tuple[str, str] | None:
        """The address of the replica, without secrets, and how far it is behind, in words; None
        if there is none. Raises `DatabaseError` if it does not answer.
        """
