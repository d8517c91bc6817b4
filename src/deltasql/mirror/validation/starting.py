"""Whether readers find a checkpoint to start from."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.delta_log.last_checkpoint import hinted_version
from deltasql.delta_log.listing import LogListing
from deltasql.delta_log.names import LAST_CHECKPOINT
from deltasql.delta_log.reading import checkpoint_fault
from deltasql.objectstore import ObjectStore


@dataclass(frozen=True, slots=True)
class StartFault:
    """Why readers can't open the table, although we can; `lost` is a checkpoint that is gone."""

    told: str
    lost: int | None = None


def start_fault(
    objects: ObjectStore,
    listing: LogListing,
    version: int,
    pointer: tuple[bytes, str] | None,
) -> StartFault | None:
    """What is wrong with `_last_checkpoint` and the newest checkpoint up to a version.

    Few readers go back to an older one. `pointer` was read before the listing.
    """
    hint = None if pointer is None else hinted_version(pointer[0])
    if hint is not None and hint not in listing.checkpoints:
        told = f"{LAST_CHECKPOINT} points at version {hint}: it has no checkpoint"
        return StartFault(told, lost=hint)
    newest = next(listing.newest_first(version), None)
    for found in () if newest is None else listing.checkpoints[newest.version]:
        fault = checkpoint_fault(objects, found)
        if fault is not None:
            return StartFault(f"the checkpoint of version {found.version} can't be read: {fault}")
    return None
