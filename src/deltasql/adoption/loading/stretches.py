"""The adds of a checkpoint in stretches, which other processes turn into rows for the database.

`AddsWork` is what such a process does. It is sent there, needs neither a database nor its driver,
and makes the rows as `first_checkpoint.load_adds` does. `take_stretches` passes them on. `SumsWork`
only sums them up.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.adoption.loading.checkpoint_adds import AddReader
from deltasql.adoption.loading.first_checkpoint import (
    Base,
    LoadedAdds,
    batches_of,
    unreadable,
)
from deltasql.adoption.loading.outside import PathRules
from deltasql.adoption.loading.parts import Parts
from deltasql.commit.collector import paused
from deltasql.delta_log.checkpoint.parquet import opened
from deltasql.errors import DeltaSqlError, MirrorError
from deltasql.log.file_sums import FileSum, FileSums
from deltasql.log.pruning.stats_columns import StatsColumn
from deltasql.log.state import TableState
from deltasql.mirror.validation.second_reader import FilesDigest
from deltasql.objectstore import ObjectStore, open_store
from deltasql.spec import codec
from deltasql.store.checking.content import hashes_of_row
from deltasql.store.history import key_of_row
from deltasql.store.rows import Row

# Rows that one process makes at a time: they are in memory at once. To skip the rows before them in
# a row group costs next to nothing beside that.
MOST_ROWS: Final = 100_000
_KEY: Final = 16
_CODEC: Final = "lz4"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some rows of a file of a checkpoint."""

    name: str
    rows: range


def stretches(objects: ObjectStore, files: Iterable[str]) -> Iterator[Stretch]:
    """The files of a checkpoint, cut so that several processes can read them."""
    for name in files:
        with opened(objects, name, unreadable(name)) as file:
            count = file.metadata.num_rows
        for start in range(0, count, MOST_ROWS):
            yield Stretch(name, range(start, min(start + MOST_ROWS, count)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddsWork:
    """Makes the rows of stretches; `chunk` is `HistoryLog.add_chunk` of the database."""

    location: str
    storage: Mapping[str, Any]
    version: int
    stats_columns: tuple[StatsColumn, ...]
    allowed: Sequence[str]
    table_id: int
    chunk: Callable[[int, Sequence[Row]], bytes]

    def __call__(self, stretch: Stretch) -> bytes:
        """The rows of a stretch, for `take_stretches`; or the error that reading it raised."""
        return _answer(stretch, lambda: list(self._made(stretch)))

    def _made(self, stretch: Stretch) -> Iterator[_Made]:
        objects = open_store(self.location, self.storage)
        paths = PathRules(self.location, self.allowed)
        # Files that are there twice may be in different stretches: whoever takes them looks.
        adds = AddReader(self.version, self.stats_columns, set(), paths)
        for batch in batches_of(objects, stretch.name, "add", stretch.rows):
            rows, partitions = adds.rows(batch, stretch.name)
            sums = FileSum()
            sums.add_many(hashes_of_row(row[1:]) for row in rows)
            chunk = self.chunk(self.table_id, rows)
            yield _Made(
                chunk=pa.compress(chunk, codec=_CODEC, asbytes=True),
                size=len(chunk),
                partitions=partitions,
                keys=b"".join([short_key(row[1], row[2]) for row in rows]),
                sums=sums.value(),
                outside=dict(paths.outside),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A batch of adds: rows for the database, packed, and what is to be known about all files."""

    chunk: bytes
    size: int
    partitions: list[Row]
    keys: bytes
    sums: FileSums
    outside: dict[tuple[str, str], str]


def short_key(path_key: bytes, dv_key: bytes) -> bytes:
    """One key of a file, as good as each of the two."""
    return sha256(path_key + dv_key).digest()[:_KEY] if dv_key else path_key


def take_stretches(
    base: Base, state: TableState, parts: Parts, paths: PathRules, made: Iterable[bytes]
) -> LoadedAdds:
    """Pass on what `AddsWork` made of all stretches of a checkpoint, in their order."""
    keys = _Keys()
    sums = FileSum()
    for answer in made:
        for item in _opened(answer):
            chunk = pa.decompress(
                item.chunk, decompressed_size=item.size, codec=_CODEC, asbytes=True
            )
            parts.take_chunk(chunk, item.sums.files, item.partitions)
            keys.add(item.keys)
            sums.add_sums(item.sums)
            paths.take_outside(item.outside)
    if keys.has_twins():
        _name_twins(base, state)
    return LoadedAdds(keys, sums.value())


def _name_twins(base: Base, state: TableState) -> None:
    """Raise the error for a file that is there twice, which only a look at all of them can name."""
    adds = AddReader(base.version, state.stats_columns, set(), PathRules(base.location))
    for name in base.files:
        for batch in base.batches(name, "add"):
            adds.rows(batch, name)


@dataclass(slots=True)
class _Keys:
    """The short keys of very many files, side by side: objects would take ten times the memory."""

    _found: bytearray = field(default_factory=bytearray)

    def add(self, keys: bytes) -> None:
        self._found += keys

    def update(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._found += short_key(key[:_KEY], key[_KEY:])

    def intersection(self, keys: Iterable[bytes]) -> set[bytes]:
        asked = {short_key(key[:_KEY], key[_KEY:]): key for key in keys}
        if not asked or not self._found:
            return set()
        wanted = pa.array(list(asked), pa.binary(_KEY))
        known = self._array()
        hits = known.filter(pc.is_in(known, value_set=wanted))
        return {asked[key] for key in hits.to_pylist()}

    def has_twins(self) -> bool:
        known = self._array()
        return len(known) != len(known.unique())

    def _array(self) -> pa.Array:
        count = len(self._found) // _KEY
        data = pa.py_buffer(self._found)
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(_KEY), count, [None, data])


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsWork:
    """Sums up the files of stretches, except for those of some keys."""

    location: str
    storage: Mapping[str, Any]
    without: frozenset[bytes]

    def __call__(self, stretch: Stretch) -> bytes:
        """The sums over a stretch, for `take_sums`; or the error that reading it raised."""
        return _answer(stretch, lambda: self._sums(stretch))

    def _sums(self, stretch: Stretch) -> FileSums:
        objects = open_store(self.location, self.storage)
        adds = AddReader(0, (), set(), PathRules(self.location))
        sums = FileSum()
        for batch in batches_of(objects, stretch.name, "add", stretch.rows, typed=False):
            rows, _ = adds.rows(batch, stretch.name)
            sums.add_many(
                hashes_of_row(row[1:]) for row in rows if key_of_row(row) not in self.without
            )
        return sums.value()


def take_sums(made: Iterable[bytes]) -> FileSums:
    """All that `SumsWork` made, together."""
    sums = FileSum()
    for answer in made:
        sums.add_sums(_opened(answer))
    return sums.value()


@dataclass(frozen=True, slots=True)
class PathsWork:
    """Hashes paths and sizes that somebody else has read, except for those of `touched` files."""

    touched: frozenset[tuple[str, str]]

    def hashed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row with a digest, for all batches of path, size and, maybe, deletion vector."""
        found = FilesDigest()
        for batch in batches:
            found.take(self._files(batch))
        digest = pa.array([pickle.dumps(found)], pa.binary())
        yield pa.RecordBatch.from_arrays([digest], ["digest"])

    def _files(self, batch: pa.RecordBatch) -> Iterator[tuple[str, int]]:
        paths, sizes = (batch.column(name).to_pylist() for name in ("path", "size"))
        if not self.touched:
            return zip(paths, sizes, strict=True)
        vectors = [None] * len(paths)
        if "deletionVector" in batch.schema.names:
            vectors = batch.column("deletionVector").to_pylist()
        return (
            (path, size)
            for path, size, vector in zip(paths, sizes, vectors, strict=True)
            if (path, _vector_id(vector)) not in self.touched
        )


def _vector_id(vector: dict[str, Any] | None) -> str:
    known = {name: value for name, value in (vector or {}).items() if value is not None}
    return codec.vector_from_wire(known).unique_id if known else ""


# --- between processes ------------------------------------------------------------------


def _answer(stretch: Stretch, work: Callable[[], Any]) -> bytes:
    try:
        with paused():
            found = work()
    except FileNotFoundError as error:
        found = _unseen(stretch.name, str(error))
    except UnicodeDecodeError as error:
        found = unreadable(stretch.name)(str(error))
    except DeltaSqlError as error:
        found = error
    return pickle.dumps(found, protocol=pickle.HIGHEST_PROTOCOL)


def _opened(answer: bytes) -> Any:
    found = pickle.loads(answer)  # noqa: S301 - our own
    if isinstance(found, DeltaSqlError):
        raise found
    return found


def _unseen(name: str, cause: str) -> MirrorError:
    return MirrorError(
        f"_delta_log/{name} is not seen by every process that should read it",
        cause=cause.splitlines()[0] if cause else "there is no such file there",
        remedy="the table must be where every executor can read it: an object store, or a folder "
        "that all machines share",
        path=f"_delta_log/{name}",
    )
