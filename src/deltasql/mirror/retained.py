"""What log retention keeps of a mirror: the boundary that cleanup and repair agree on."""

from __future__ import annotations

from deltasql.delta_log.listing import LogListing
from deltasql.log.retention import DAY_MS, log_ms
from deltasql.mirror.property_faults import warn_of_faults
from deltasql.store.interface import LogStore


def cutoff_ms(log: LogStore, table_id: int) -> int:
    """Commits up to this time may go: now minus the retention, cut to midnight UTC (rule 53)."""
    record = log.state(table_id)
    assert record is not None, "the table is there"
    properties = record.parsed().properties
    warn_of_faults(log, table_id, properties)
    limit = log.clock_ms() - log_ms(properties)
    return limit - limit % DAY_MS


def first_kept(log: LogStore, table_id: int, listing: LogListing, head: int) -> int:
    """The oldest version whose commit file should be in the mirror.

    Cleanup keeps no record. What it removes are the oldest commits, without a gap, below a
    checkpoint, and past the retention. Anything else that is missing was lost.
    """
    record = log.head(table_id)
    earliest = record.earliest_version if record else 0
    oldest = min((v for v in listing.commits if v <= head), default=earliest)
    checkpoint = min((v for v in listing.checkpoints if v <= head), default=earliest)
    if oldest <= earliest or checkpoint <= earliest:
        return earliest
    expired = log.version_at(table_id, cutoff_ms(log, table_id))
    if expired is None:
        return earliest
    return max(earliest, min(oldest, checkpoint, expired + 1))
