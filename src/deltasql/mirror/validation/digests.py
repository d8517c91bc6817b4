"""Commit files in the mirror beside the digests that their commits recorded in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final, TypeAlias

from deltasql.delta_log.names import LOG, commit_name
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore

# What an adopted version has that came with a checkpoint and without its commit file.
_NO_FILE: Final = sha256(b"").digest()
_PARALLEL: Final = 8
# Told how much is done, of how much.
Advance: TypeAlias = Callable[[int, int], None]


def commit_digests(log: LogStore, table_id: int) -> dict[int, bytes]:
    """The digest of every version that has a commit file."""
    return {
        record.version: record.digest
        for record in log.history(table_id)
        if record.digest != _NO_FILE
    }


def differing(
    objects: ObjectStore,
    digests: Mapping[int, bytes],
    versions: Iterable[int],
    progress: Advance | None = None,
) -> list[int]:
    """Those of the versions, in order, whose commit file has other bytes than were committed.

    Every one of them is read: of an object's bytes its size says nothing. `progress` is told how
    many were read, of how many.
    """

    def is_other(version: int) -> bool:
        return sha256(objects.read(LOG + commit_name(version))).digest() != digests[version]

    present = sorted(versions)
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="deltasql-digests") as pool:
        others = []
        found = zip(present, pool.map(is_other, present), strict=True)
        for count, (version, other) in enumerate(found, start=1):
            if other:
                others.append(version)
            if progress is not None:
                progress(count, len(present))
        return others
