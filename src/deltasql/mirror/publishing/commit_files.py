"""Commit files into the object store: put if absent, read back what exists, never overwrite."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import DeltaSqlError, MirrorConflictError, MirrorError, MirrorGapError
from deltasql.objectstore import Item, ObjectStore
from deltasql.objectstore.wholeness import must_be_whole
from deltasql.spec import codec
from deltasql.store.mirroring.interface import PendingVersion
from deltasql.telemetry import tracing

logger = logging.getLogger("deltasql.mirror")

_SIDE_BY_SIDE: Final = 16


@dataclass(frozen=True, slots=True)
class Published:
    """How many commit files are visible, and why no more are."""

    count: int
    failure: DeltaSqlError | None = None


def publish_commits(
    objects: ObjectStore, versions: Sequence[PendingVersion], checksums: Sequence[Item]
) -> Published:
    """Make sound commit files visible in order, each followed by its checksum; without checksums,
    the caller writes those.
    """
    started = time.time_ns()
    published = _in_order(objects, versions, checksums)
    _tell(objects, versions, published, started)
    return published


def _in_order(
    objects: ObjectStore, versions: Sequence[PendingVersion], checksums: Sequence[Item]
) -> Published:
    items = [(LOG + commit_name(item.version), item.body or b"") for item in versions]
    done = 0
    try:
        while done < len(items):
            put = objects.put_many_if_absent(items[done:], checksums[done:])
            done += put.count
            if put.failure is not None:
                return Published(done, put.failure)
            if put.exists:
                # Another write came first: our own, if its answer was lost, or a foreign one.
                must_be_ours(objects, *items[done])
                if checksums:
                    # An existing one stays: it can only be ours, or a foreign one that was correct.
                    objects.put_if_absent(*checksums[done])
                done += 1
    except DeltaSqlError as error:
        return Published(done, error)
    return Published(done)


def publish_side_by_side(
    objects: ObjectStore, versions: Sequence[PendingVersion], checksums: Sequence[Item]
) -> Published:
    """Make sound commit files visible in any order, if no reader of the newest version needs them.
    `count` of the result is how many are there without a gap from the first on.
    """

    def put(item: PendingVersion, checksum: Item) -> None:
        publish(objects, LOG + commit_name(item.version), item.body or b"")
        objects.put_if_absent(*checksum)

    failure = None
    done = 0
    started = time.time_ns()
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="deltasql-fill") as pool:
        puts = [pool.submit(put, *both) for both in zip(versions, checksums, strict=True)]
        for future in puts:
            try:
                future.result()
            except DeltaSqlError as error:
                failure = error
                break
            done += 1
        for future in puts:
            future.cancel()
    published = Published(done, failure)
    _tell(objects, versions, published, started)
    return published


def _tell(
    objects: ObjectStore, versions: Sequence[PendingVersion], published: Published, started: int
) -> None:
    """Log the versions that are visible now, and trace them and the one that failed."""
    is_traced = tracing.is_on()
    if not is_traced and not logger.isEnabledFor(logging.INFO):
        return
    for item in versions[: published.count]:
        facts = facts_of(objects, item)
        logger.info("mirrored", extra=facts)
        if is_traced:
            _trace(facts, started)
    if is_traced and published.failure is not None:
        _trace(facts_of(objects, versions[published.count]), started, published.failure)


def _trace(facts: dict[str, Any], started: int, failure: DeltaSqlError | None = None) -> None:
    commit = facts.pop("commit_id") or ""
    tracing.span_of_commit("mirror.put", commit, started, failure, **facts)


def facts_of(objects: ObjectStore, item: PendingVersion) -> dict[str, Any]:
    """What is logged and traced of a version on its way."""
    first = (item.body or b"{}").partition(b"\n")[0]
    try:
        info = codec.loads(first).get("commitInfo") or {}
    except (ValueError, AttributeError):
        info = {}  # the very bytes may be what is wrong
    return {
        "version": item.version,
        "attempt": item.retry_count + 1,
        "commit_id": info.get("txnId"),
        "operation": info.get("operation"),
        "key": f"{objects.location.rstrip('/')}/{LOG}{commit_name(item.version)}",
    }


def publish(objects: ObjectStore, path: str, body: bytes) -> None:
    """Make one object visible, or find it there with the same bytes."""
    if not objects.put_if_absent(path, body):
        must_be_ours(objects, path, body)


def must_be_ours(objects: ObjectStore, path: str, body: bytes) -> None:
    """Raise `MirrorConflictError` unless the object has exactly these bytes."""
    found = objects.read(path)
    if found != body:
        must_be_whole(objects, path, found)
        raise _foreign(path, is_prefix=body.startswith(found))


def sound_start(
    versions: Sequence[PendingVersion],
) -> tuple[Sequence[PendingVersion], MirrorError | None]:
    """The versions before the first whose bytes are not as committed, and that problem."""
    for place, item in enumerate(versions):
        try:
            _must_be_sound(item)
        except MirrorError as problem:
            return versions[:place], problem
    return versions, None


def _must_be_sound(item: PendingVersion) -> None:
    if item.body is None:
        raise MirrorGapError(
            f"version {item.version} is missing in SQL",
            cause="its row is gone from dl_table_versions",
            remedy="restore the database; later versions wait for this one",
            version=item.version,
        )
    must_be_as_committed(item.version, item.body, item.digest)


def must_be_as_committed(version: int, body: bytes, digest: bytes) -> None:
    """Raise `MirrorError` unless SQL still has the bytes that were committed."""
    if sha256(body).digest() != digest:
        raise MirrorError(
            f"version {version} is not what was committed",
            cause="its bytes in SQL do not have the digest that the commit recorded",
            remedy="restore the row from a backup",
            version=version,
        )


def must_follow(objects: ObjectStore, version: int, digest: bytes | None) -> None:
    """Raise `MirrorGapError` unless the version before is in the mirror, and `MirrorConflictError`
    unless it has the digest, which None skips.
    """
    path = LOG + commit_name(version - 1)
    if digest is None:
        is_there = objects.head(path) is not None
    else:
        try:
            found = objects.read(path)
        except FileNotFoundError:
            is_there = False
        else:
            is_there = True
            if sha256(found).digest() != digest:
                must_be_whole(objects, path, found)
                raise _foreign(path, is_prefix=False)
    if not is_there:
        raise MirrorGapError(
            f"version {version} can't be mirrored before version {version - 1}",
            cause=f"SQL says that {commit_name(version - 1)} was written, and it is gone",
            remedy="run mirror.repair(): it writes what is missing",
            version=version - 1,
        )


def _foreign(path: str, *, is_prefix: bool) -> MirrorConflictError:
    return MirrorConflictError(
        f"{path} differs from what SQL has",
        cause="a foreign writer, an older database or a broken copy wrote it",
        remedy="inspect it; mirror.repair(force=True) moves it aside and writes ours",
        path=path,
        is_prefix=is_prefix,
    )
