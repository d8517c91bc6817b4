"""A server that follows the one that commits: asked for the log, and left alone while it is ill."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa

from deltasql.errors import ConfigError, DatabaseError, StoreError
from deltasql.settings.secrets import mask, scrubbed
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.reader import SQL
from deltasql.store.rows import Row
from deltasql.telemetry import metrics

logger = logging.getLogger("deltasql.replica")

# How long a connection to it may take: the primary is there, too.
_CONNECTING: Final = 3.0
# How long it is left alone after it failed or was too late; doubled each time.
_FIRST_REST: Final = 1.0
_LONGEST_REST: Final = 60.0

Identity = tuple[object, ...]


class Answer(NamedTuple):
    """What a replica said of a table: its head and that one's in-commit time, None if it has none,
    the newest version that is as we know it, and whether one is not.
    """

    head: int | None
    in_commit_timestamp: int | None
    proven: int | None
    is_astray: bool
    rows: list[Row]


class Replica:
    """One address of servers that replay the primary's log."""

    def __init__(self, url: str, *, pool_size: int, timeout: float, primary: Connections) -> None:
        self._url = url
        self.shown = mask(url)
        self._primary = primary
        self._connections = Connections(
            url, size=pool_size, timeout=timeout, connecting=min(timeout, _CONNECTING)
        )
        self._opening = threading.Lock()
        self._is_open = False
        self._is_ill = False
        self._rest = _FIRST_REST
        self._rests_until = 0.0

    @classmethod
    def open(cls, url: str, *, pool_size: int, timeout: float, primary: Connections) -> Self:
        """Connect if it can be reached; if it can't, it is tried again later."""
        replica = cls(url, pool_size=pool_size, timeout=timeout, primary=primary)
        try:
            replica.connected()
        except StoreError as error:
            replica.rest("failed", str(error))
        return replica

    # --- asking -------------------------------------------------------------------------

    @property
    def is_resting(self) -> bool:
        """Whether it failed lately, so that nobody should wait for it."""
        return time.monotonic() < self._rests_until

    def at_head(
        self, table_id: int, times: Mapping[int, int], query: str, parameters: Mapping[str, Any]
    ) -> Answer:
        """The answer to a query, and how the table is there at that very moment, compared with the
        in-commit times that versions are known to have; all in one round trip.
        """
        known = {"versions": list(times), "icts": list(times.values())}
        with (
            self.connected().statement("reading from the replica") as connection,
            connection.pipeline(),
        ):
            connection.execute(SQL["replica_begin"], prepare=False)
            head = connection.execute(SQL["replica_head"], {"table_id": table_id, **known})
            found = connection.execute(query, parameters)
            connection.execute("COMMIT", prepare=False)
            ((is_standby, version, time_of, proven, is_astray),) = head.fetchall()
            rows = found.fetchall()
        if not is_standby:
            raise DatabaseError(
                f"the replica {self.shown} follows no server",
                cause="it was promoted, or never was a standby: its commits need not be the lake's",
                remedy="name a streaming standby of the server in url, or take sql.read_url out",
            )
        return Answer(version, time_of, proven, is_astray, rows)

    def batches(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        """The answer to a query without parameters, in Arrow."""
        batches = self.connected().arrow(query)
        next(batches)
        return pa.RecordBatchReader.from_batches(
            schema,
            (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches),
        )

    def connected(self) -> Connections:
        """The connections, opened with their first use."""
        if not self._is_open:
            with self._opening:
                if not self._is_open:
                    self._connections.open()
                    self._must_be_a_replica()
                    self._is_open = True
        return self._connections

    def _must_be_a_replica(self) -> None:
        """Another database may have a table of the same number, with other files."""
        theirs, ours = _identity(self._connections), _identity(self._primary)
        if None not in (theirs, ours) and theirs != ours:
            self._connections.close()
            raise ConfigError(
                "sql.read_url is not a replica of the lake's database",
                cause=f"{self.shown} is another cluster or another database",
                remedy="name the same database on a streaming standby of the server in url",
            )

    # --- health -------------------------------------------------------------------------

    def rest(self, reason: str, why: str) -> None:
        """Leave it alone for a while; said once until it works again."""
        metrics.REPLICA_FALLBACKS.labels(reason).inc()
        if not self._is_ill:
            self._is_ill, self._rest = True, _FIRST_REST
            told = scrubbed(why, self._url)
            logger.warning("reading from the primary: the replica %s %s", self.shown, told)
        self._rests_until = time.monotonic() + self._rest
        self._rest = min(self._rest * 2, _LONGEST_REST)

    def worked(self) -> None:
        """It has answered, and in time."""
        if self._is_ill:
            self._is_ill = False
            logger.info("reading from the replica %s again", self.shown)
        metrics.REPLICA_READS.inc()

    def status(self) -> str:
        """How far it is behind, in words; raises if it does not answer."""
        try:
            ((is_standby, replayed),) = self.connected().rows(SQL["replica_status"], {})
        except StoreError as error:
            told = scrubbed(f"{error.problem}: {error.cause}", self._url)
            raise DatabaseError(
                f"the replica {self.shown} does not answer",
                cause=told,
                remedy="start it, or take sql.read_url out; until then reads go to the primary",
            ) from None
        if not is_standby:
            return "a primary itself"
        ((behind,),) = self._primary.rows(SQL["replica_behind"], {"replayed": replayed})
        return f"{max(0, behind)} bytes of WAL behind"

    def usage(self) -> tuple[int, int]:
        """Connections in use, and threads waiting for one."""
        return self._connections.usage() if self._is_open else (0, 0)

    def close(self) -> None:
        """Close every connection."""
        if self._is_open:
            self._connections.close()


def _identity(connections: Connections) -> Identity | None:
    """The cluster and the database; None if we may not ask."""
    try:
        return connections.rows(SQL["replica_identity"], {})[0]
    except DatabaseError as error:
        if error.is_refusal:
            return None
        raise
