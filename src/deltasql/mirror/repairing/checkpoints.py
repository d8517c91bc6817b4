"""Checkpoints that are missing or broken, and a `_last_checkpoint` that points nowhere."""

from __future__ import annotations

from collections.abc import Callable

from deltasql.delta_log.last_checkpoint import parse_last_checkpoint, render_last_checkpoint
from deltasql.delta_log.listing import FoundCheckpoint, LogListing, list_log
from deltasql.delta_log.names import LAST_CHECKPOINT, LOG
from deltasql.delta_log.reading import checkpoint_fault, checkpoint_summary
from deltasql.mirror.checkpoints.content import TableContent, checkpoint_difference
from deltasql.mirror.checkpoints.soundness import live_sums, must_be_sound
from deltasql.mirror.statuses import statuses
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.names import checksum_name
from deltasql.store.interface import LogStore


def forget_lost_checkpoints(
    log: LogStore,
    objects: ObjectStore,
    listing: LogListing,
    table_id: int,
    *,
    first: int,
    last: int,
    move_aside: Callable[[str], None],
) -> set[int]:
    """Mark the checkpoints in a range that are gone, broken or wrong, to be written again.

    Broken ones are deleted first, since nothing is overwritten; readable ones that contradict SQL
    are moved aside. Returns the versions that have a sound one.
    """
    sound: set[int] = set()
    written = {
        record.version
        for record in statuses(log, table_id, first=first, last=last)
        if record.checkpoint_written
    }
    for version in sorted(written | {v for v in listing.checkpoints if first <= v <= last}):
        for found in listing.checkpoints.get(version, ()):
            if checkpoint_fault(objects, found) is not None:
                delete_with_checksum(objects, *found.names)
            elif is_wrong(log, objects, table_id, found):
                for name in found.names:
                    move_aside(name)
            else:
                sound.add(version)
        if version not in sound:
            log.forget_checkpoint(table_id, version)
    return sound


def is_wrong(log: LogStore, objects: ObjectStore, table_id: int, found: FoundCheckpoint) -> bool:
    """Whether a checkpoint contradicts SQL.

    Raises `DamagedLogError` if it does and the rows can't be proven: the checkpoint may be right.
    """
    record = log.state(table_id, found.version)
    assert record is not None, "a version with a checkpoint is in SQL"
    state = record.parsed()
    truth = TableContent(
        sums=live_sums(log, table_id, found.version),
        metadata=state.metadata,
        protocol=state.protocol,
        txns={
            item.app_id: (item.txn_version, item.last_updated)
            for item in log.txns(table_id, found.version)
        },
        domains=log.domains(table_id, found.version),
    )
    if checkpoint_difference(objects, found, truth) is None:
        return False
    must_be_sound(log, table_id, found.version)
    return True


def point_at_newest(objects: ObjectStore, *, upto: int) -> bool:
    """Point `_last_checkpoint` at the newest sound checkpoint, or delete it if there is none.

    A pointer is replaced only if it is corrupt, older, or names nothing; so it goes back in version
    only if no reader could follow it. Returns whether it was replaced.
    """
    path = LOG + LAST_CHECKPOINT
    listing = list_log(objects)
    found = objects.read_tagged(path)
    newest = next(
        (item for item in listing.newest_first(upto) if checkpoint_fault(objects, item) is None),
        None,
    )
    current = None if found is None else parse_last_checkpoint(found[0])
    if newest is None:
        if found is not None:
            objects.delete([path])
        return found is not None
    if current == newest.version:
        return False
    content = render_last_checkpoint(checkpoint_summary(objects, newest))
    return objects.put_if_match(path, content, None if found is None else found[1])


def delete_with_checksum(objects: ObjectStore, *names: str) -> None:
    """Delete objects of the log with their Hadoop checksums, which would be wrong for any other
    content (rule 36).
    """
    paths = [LOG + name for name in names]
    objects.delete([*paths, *map(checksum_name, paths)])
