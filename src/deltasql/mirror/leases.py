"""Leases: how everybody takes them, waits for them, keeps them alive and gives them back.

A process that mirrors, repairs, adopts or purges a table holds its lease, which ends by itself if
its holder dies. Each write presents the lease's token, so that a holder that was suspended can do
no harm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deltasql.errors import DeltaSqlError, MirrorError, StoreError
from deltasql.store.mirroring.interface import Lease, MirrorLog, Work

if TYPE_CHECKING:
    from deltasql.mirror.engine import MirrorEngine, Target

LEASE_SECONDS = 30.0
# A publish run ends, or its lease does: after this long, its holder keeps renewing it.
LONGEST_WAIT: Final = 2 * LEASE_SECONDS
_ASK_EVERY: Final = 0.003


class LeaseLostError(Exception):
    """Another process mirrors the table now, and continues from what has been done."""


@dataclass(frozen=True, slots=True)
class Leases:
    """Both leases of a table: nobody else mirrors it."""

    commits: Lease
    checkpoints: Lease


def try_lease(log: MirrorLog, table_id: int, holder: str, work: Work) -> Lease | None:
    """The lease, unless another process has it."""
    return log.acquire_lease(table_id, holder, LEASE_SECONDS, work)


def is_held(log: MirrorLog, *leases: Lease) -> bool:
    """Whether the leases are still ours; if so, they are renewed."""
    return all(log.renew_lease(lease, LEASE_SECONDS) for lease in leases)


def busy(table: str) -> MirrorError:
    """The error for a lease that could not be had in time."""
    return MirrorError(
        f"{table}: the mirror is busy",
        cause=f"another process kept the table's lease for {LONGEST_WAIT:.0f} s",
        remedy="try again later; dl_mirror_leases names the holder",
    )


@contextmanager
def kept_alive(log: MirrorLog, lease: Lease) -> Iterator[threading.Event]:
    """Renew a lease in the background; the event is set if it was lost."""
    stop, lost = threading.Event(), threading.Event()

    def renew() -> None:
        while not stop.wait(LEASE_SECONDS / 3):
            try:
                if not is_held(log, lease):
                    lost.set()
                    return
            except DeltaSqlError:
                continue  # the next try, or the deadline, decides

    thread = threading.Thread(target=renew, name="deltasql-lease", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        stop.set()
        thread.join()


@contextmanager
def held_lease(engine: MirrorEngine, log: MirrorLog, target: Target, work: Work) -> Iterator[Lease]:
    """One of a table's leases, waited for and kept alive."""
    deadline = time.monotonic() + LONGEST_WAIT
    while (lease := try_lease(log, target.table_id, engine.holder, work)) is None:
        if time.monotonic() > deadline:
            raise busy(target.name)
        # More often than writers ask, who would otherwise always be faster.
        time.sleep(_ASK_EVERY)
    try:
        with kept_alive(log, lease):
            yield lease
    finally:
        # The lease ends by itself, and a failure here changes nothing about the work done under it.
        with suppress(StoreError):
            log.release_lease(lease)


@contextmanager
def held_leases(engine: MirrorEngine, log: MirrorLog, target: Target) -> Iterator[Leases]:
    """The table's leases, waited for and kept alive, so that no publish run is under way."""
    with (
        held_lease(engine, log, target, Work.COMMITS) as commits,
        held_lease(engine, log, target, Work.CHECKPOINTS) as checkpoints,
    ):
        yield Leases(commits, checkpoints)
