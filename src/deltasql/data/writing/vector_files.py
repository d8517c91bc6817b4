"""Deletion vectors written to a file of their own, as stock Delta writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import DeletionVector
from deltasql.spec.deletion_vectors import encode, encode_file, in_file, relative_path
from deltasql.spec.paths import encode_path


@dataclass(frozen=True, slots=True)
class WrittenVectors:
    """Vectors by the keys they were requested with, and their file's path as the log writes it."""

    path: str
    vectors: Mapping[str, DeletionVector]


def write_vectors(
    objects: ObjectStore, rows: Mapping[str, Iterable[int]], *, new_id: Callable[[], str]
) -> WrittenVectors:
    """Write one vector for each set of physical rows, all into one new file."""
    uuid = UUID(new_id()).bytes
    sets = {name: sorted(set(found)) for name, found in rows.items()}
    bitmaps = [encode(found) for found in sets.values()]
    content, offsets = encode_file(bitmaps)
    key = relative_path(uuid)
    objects.put(key, content)
    vectors = {
        name: in_file(uuid, bitmap=bitmap, offset=offset, cardinality=len(found))
        for (name, found), bitmap, offset in zip(sets.items(), bitmaps, offsets, strict=True)
    }
    return WrittenVectors(encode_path(key), vectors)


def loosened(stats: str | None) -> str | None:
    """Stats of a file that lost rows: bounds still hold, but may no longer be reached."""
    if stats is None:
        return None
    values = codec.loads(stats)
    values["tightBounds"] = False
    return codec.dumps(values).decode()
