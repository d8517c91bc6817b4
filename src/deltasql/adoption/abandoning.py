"""Gives up an adoption that was begun and not finished: deletes its rows, and frees its place."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.delta_log.listing import list_log
from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import LogFormatError, MirrorError, TableNotFoundError
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.leases import held_lease
from deltasql.objectstore import ObjectStore
from deltasql.places import place_of
from deltasql.spec import codec
from deltasql.spec.actions import Protocol
from deltasql.spec.features import FENCE
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Work


@dataclass(frozen=True, slots=True)
class AbandonedAdoption:
    """An adoption that was given up; `newest` is the last version that had been read.

    `is_fenced` says that the fence is already in the log: other writers stay out of the table until
    it is adopted and released.
    """

    table: str
    location: str
    newest: int | None
    is_fenced: bool


def abandon(engine: MirrorEngine, log: LogStore, objects: ObjectStore) -> AbandonedAdoption:
    """Delete what an adoption at the store's root has loaded, and its claim on the place."""
    place = place_of(objects.location)
    found = [item for item in log.staged_tables() if place_of(item.location) == place]
    if not found:
        raise TableNotFoundError(
            f"no adoption was begun at {objects.location}",
            cause="there is none, or it was already finished or abandoned",
            remedy="lake.tables() and lake.dropped() list the tables that hold a location",
        )
    staged = found[0]
    target = Target(staged.table_id, staged.name, staged.location)
    # A running adoption holds the lease, and must not be ended by us.
    with held_lease(engine, log, target, Work.COMMITS) as lease:
        if not log.trim_history(lease, after=-1):
            raise MirrorError(
                f"the adoption of {staged.location} was not abandoned",
                cause="in the meantime another process finished or continued it",
                remedy="check lake.tables(); if the table is not there, try again",
            )
        log.purge_table(staged.table_id)
    return AbandonedAdoption(staged.name, staged.location, staged.newest, _has_fence(objects))


def _has_fence(objects: ObjectStore) -> bool:
    """Whether the newest commit raised our fence: nobody else can have written after it."""
    newest = list_log(objects).commits.last
    if newest is None:
        return False
    name = commit_name(newest)
    try:
        actions = codec.decode_commit(objects.read(LOG + name), source=name)
        protocols = [action for action in actions if isinstance(action, Protocol)]
    except LogFormatError:
        return False
    return any(FENCE in (protocol.writer_features or ()) for protocol in protocols)
