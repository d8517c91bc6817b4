"""The content of a checkpoint, hashed the same way from rows, from commits and from checkpoints.

JSON is hashed by its meaning, not by its spelling: checkpoints have maps and structs instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson

from deltasql.log.file_sums import DIGEST_SIZE, FileHashes
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, DeletionVector
from deltasql.spec.shapes import SHAPES
from deltasql.store.rows import (
    ADD_COLUMNS,
    DOMAIN_COLUMNS,
    METADATA_COLUMNS,
    PROTOCOL_COLUMNS,
    TXN_COLUMNS,
    CommitRows,
    Row,
    key_of,
)


class ContentRow(NamedTuple):
    """What is hashed of a live file. Unknown fields, statistics' keys and dataChange are in no
    checkpoint.
    """

    path_key: bytes
    dv_key: bytes
    size_bytes: int
    path: str
    modification_time: int
    partition_values: str
    stats: str | None
    tags: str | None
    deletion_vector: str | None
    base_row_id: int | None
    default_row_commit_version: int | None
    clustering_provider: str | None

    @property
    def key(self) -> bytes:
        """The key that the file is found by."""
        return self.path_key + self.dv_key


CONTENT_COLUMNS: Final = ContentRow._fields
_FROM_ADD: Final = itemgetter(*(ADD_COLUMNS.index(name) for name in CONTENT_COLUMNS))
_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_VECTOR: Final = frozenset(SHAPES[DeletionVector].by_wire)


def _places(columns: tuple[str, ...], *names: str) -> tuple[int, ...]:
    """The positions of columns in a row that starts with its version."""
    return 0, *(1 + columns.index(name) for name in names)


# The hashed columns of rows that are not files. The first one is the row's name.
_OTHERS: Final = {
    "txns": _places(TXN_COLUMNS, "app_id", "txn_version", "last_updated"),
    "domains": _places(DOMAIN_COLUMNS, "domain", "configuration", "removed"),
    "metadata": _places(METADATA_COLUMNS, "action"),
    "protocol": _places(PROTOCOL_COLUMNS, "action"),
}
OTHER_KINDS: Final = tuple(_OTHERS)


def file_hashes(row: Row) -> FileHashes:
    """The hashes of a live file, from its `CONTENT_COLUMNS`."""
    (
        path_key, dv_key, size, path, modified, partition, stats, tags, vector, row_id,
        row_version, provider,
    ) = row  # fmt: skip
    keys = path_key + dv_key
    values = partition if partition == "{}" else _plain(partition)
    text = f"{size},{modified},{row_id},{row_version},{len(path)},{path}{values}"
    # No tags and an empty map of tags are the same: writers differ in what they repeat.
    plain_tags = None if tags is None or tags == "{}" else _plain(tags)
    if plain_tags is not None or vector is not None or provider is not None:
        text += repr((plain_tags, vector and _plain_vector(vector), provider))
    return FileHashes(
        _hash(keys + text.encode("utf-8", "surrogatepass")),
        b"" if stats is None else _hash(keys + compact(stats).encode("utf-8", "surrogatepass")),
        size,
    )


def compact(text: str) -> str:
    """JSON without white space between tokens, which a checkpoint's writer may have added."""
    if '": ' in text or ', "' in text or "\n" in text:
        return _SPACE.sub(r"\1", text)
    return text


def hashes_of_row(add: Row) -> FileHashes:
    """The hashes of a live file, from its `ADD_COLUMNS`."""
    return file_hashes(_FROM_ADD(add))


def hashes_of_add(add: AddFile) -> FileHashes:
    """The hashes of a live file, from its action."""
    vector = add.deletion_vector
    return file_hashes(
        (
            key_of(add.path),
            key_of(add.dv_id),
            add.size,
            add.path,
            add.modification_time,
            codec.dumps(add.partition_values).decode(),
            add.stats,
            None if add.tags is None else codec.dumps(add.tags).decode(),
            None if vector is None else codec.dumps(codec.wire_fields(vector)).decode(),
            add.base_row_id,
            add.default_row_commit_version,
            add.clustering_provider,
        )
    )


def other_hash(kind: str, row: Row) -> bytes:
    """The hash of a row of one of `OTHER_KINDS`, which starts with its version."""
    values = [row[place] for place in _OTHERS[kind]]
    plain = [int(value) if isinstance(value, bool) else value for value in values]
    return _hash(repr((kind, *plain)).encode("utf-8", "surrogatepass"))


def other_hashes(version: int, commit: CommitRows) -> Iterator[bytes]:
    """The hashes of a commit's actions other than files."""
    for kind in OTHER_KINDS:
        rows: Iterable[Row] = getattr(commit, kind)
        for row in rows:
            yield other_hash(kind, (version, *row))


def _hash(value: bytes) -> bytes:
    return blake2b(value, digest_size=DIGEST_SIZE).digest()


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    """JSON with sorted keys; anything else unchanged."""
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text


def _plain_vector(text: str) -> str:
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if not isinstance(fields, Mapping):
        return text
    known: dict[str, Any] = {
        name: value for name, value in fields.items() if name in _VECTOR and value is not None
    }
    return orjson.dumps(known, option=orjson.OPT_SORT_KEYS).decode()
