"""Writes a table's whole log to another place, to hand it over."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from deltasql.delta_log.checkpoint.file import Sink
from deltasql.delta_log.checkpoint.v2 import uses_v2, write_v2_checkpoint
from deltasql.delta_log.checkpoint.writing import (
    CheckpointSource,
    CheckpointSummary,
    write_checkpoint,
)
from deltasql.delta_log.last_checkpoint import render_last_checkpoint
from deltasql.delta_log.listing import list_log
from deltasql.delta_log.names import LAST_CHECKPOINT, LOG, checkpoint_name, commit_name
from deltasql.errors import MirrorConflictError, StoreError, TableNotFoundError
from deltasql.log.file_sums import FileHashes
from deltasql.mirror.checkpoints.soundness import must_be_sound
from deltasql.mirror.engine import Target
from deltasql.mirror.publishing.commit_files import publish
from deltasql.objectstore import ObjectStore
from deltasql.showing.report import Report
from deltasql.spec import codec
from deltasql.spec.deletion_vectors import InFile, locate
from deltasql.spec.paths import is_elsewhere, location_uri, object_key
from deltasql.store.checking.scratch import Scratch
from deltasql.store.interface import Head, LogStore
from deltasql.store.rows import FILES_SCHEMA

_FILES: Final = ("add", "remove", "cdc")
_CHUNK: Final = 4 * 1024 * 1024
_NOTHING: Final = FileHashes(b"", b"", 0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExportReport(Report):
    """What was written: versions, and with `copy_data` files, some of which were gone."""

    location: str
    version: int
    earliest_version: int
    versions: int
    files_copied: int
    files_missing: int


def export(
    log: LogStore,
    source: ObjectStore,
    place: ObjectStore,
    target: Target,
    *,
    copy_data: bool,
    progress: Callable[[int, int], None] | None = None,
) -> ExportReport:
    """Write the log of a table to another place.

    With `copy_data`, commit files have the bytes they have in SQL, and what they refer to by
    relative paths is copied. Without it, the files stay where they are, and paths are made
    absolute.
    """
    head = log.head(target.table_id)
    if head is None:
        raise TableNotFoundError.named(target.name)
    # An export begins with a checkpoint.
    must_be_sound(log, target.table_id, head.version)
    with Scratch() as scratch:
        names = Names(source, scratch if copy_data else None)
        return _export(log, source, place, target.table_id, head, names, progress)


def _export(
    log: LogStore,
    source: ObjectStore,
    place: ObjectStore,
    table_id: int,
    head: Head,
    names: Names,
    progress: Callable[[int, int], None] | None,
) -> ExportReport:
    _must_be_its_own(log, place, table_id, names)
    versions = 0
    if head.earliest_version > 0:
        _write_base(log, place, table_id, head.earliest_version, names)
    for record in log.commits(table_id, after=head.earliest_version - 1, upto=head.version):
        if record.body:
            publish(place, LOG + commit_name(record.version), names.body(record.body))
        versions += 1
        if progress is not None:
            progress(versions, head.version - head.earliest_version + 1)
    copied, missing = copy_objects(source, place, names, progress)
    return ExportReport(
        location=place.location,
        version=head.version,
        earliest_version=head.earliest_version,
        versions=versions,
        files_copied=copied,
        files_missing=missing,
    )


def _must_be_its_own(log: LogStore, place: ObjectStore, table_id: int, names: Names) -> None:
    """Raise `MirrorConflictError` if there is a log that is not an earlier export of this table."""
    there = list_log(place)
    if not there.commits and not there.checkpoints:
        return
    others = {*there.commits, *there.checkpoints}
    for record in log.commits(table_id, after=-1):
        path = LOG + commit_name(record.version)
        is_there = record.version in there.commits
        if not is_there or place.read(path) == names.body(record.body):
            others.discard(record.version)
    if others:
        raise MirrorConflictError(
            f"{place.location} has another table's log",
            cause=f"its version {min(others)} is not what this table has",
            remedy="export to an empty place",
            version=min(others),
        )


class Names:
    """The paths in a log, either kept and recorded in `found`, or made absolute without it."""

    def __init__(self, source: ObjectStore, found: Scratch | None) -> None:
        self._root = location_uri(source.location)
        self._found = found

    def __len__(self) -> int:
        return 0 if self._found is None else self._found.count_live()

    def keys(self) -> Iterator[str]:
        """The objects that the kept paths lead to."""
        return iter(()) if self._found is None else (key for key, _ in self._found.left_sizes())

    def _note(self, found: Scratch, path: str) -> None:
        key = object_key(path)
        found.add(key.encode(), b"", file=_NOTHING, version=0, path=key)

    def body(self, body: bytes) -> bytes:
        """A commit file as it should be in the new place."""
        lines = body.split(b"\n")
        changed = [self._line(line) for line in lines]
        return body if self._found is not None else b"\n".join(changed)

    def _line(self, line: bytes) -> bytes:
        if not line or line.isspace():
            return line
        value = codec.loads(line)
        # There may be foreign keys beside the action, which are kept.
        kind = next((name for name in _FILES if value.get(name) is not None), None)
        if kind is None:
            return line
        return codec.dumps({**value, kind: self.action(value[kind])})

    def action(self, content: dict[str, Any]) -> dict[str, Any]:
        """A file action's own object."""
        content["path"] = self.path(content["path"])
        if content.get("deletionVector"):
            content["deletionVector"] = self.vector(content["deletionVector"])
        return content

    def path(self, path: str) -> str:
        """A path of the log; absolute ones stay as they are."""
        if is_elsewhere(path):
            return path
        if self._found is not None:
            self._note(self._found, path)
            return path
        return f"{self._root}/{path}"

    def vector(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A deletion vector; relative files become absolute."""
        vector = codec.vector_from_wire({k: v for k, v in fields.items() if v is not None})
        place = locate(vector) if vector.storage_type == "u" else None
        if not isinstance(place, InFile):
            return fields
        if self._found is not None:
            self._note(self._found, place.path)
            return fields
        return {**fields, "storageType": "p", "pathOrInlineDv": f"{self._root}/{place.path}"}


# --- the checkpoint that a cut history begins with --------------------------------------------


def _write_base(
    log: LogStore, place: ObjectStore, table_id: int, version: int, names: Names
) -> None:
    record = log.state(table_id, version)
    assert record is not None, "the earliest version can be read"
    state = record.parsed()
    source = CheckpointSource(
        state=state,
        files=_files(log.files(table_id, version), names),
        tombstones=_tombstones(log.tombstones(table_id, version, newer_than=-1), names),
        txns=log.txns(table_id, version),
        domains=log.domains(table_id, version),
    )
    if uses_v2(state):
        summary = write_v2_checkpoint(
            _sink_of(place),
            source,
            new_uuid=lambda: str(uuid.uuid4()),
            modification_time=log.clock_ms(),
        ).summary
    else:
        summary = _write_classic(place, version, source)
    content = render_last_checkpoint(summary)
    found = place.read_tagged(LOG + LAST_CHECKPOINT)
    place.put_if_match(LOG + LAST_CHECKPOINT, content, None if found is None else found[1])


def _write_classic(place: ObjectStore, version: int, source: CheckpointSource) -> CheckpointSummary:
    with place.open_output(LOG + checkpoint_name(version)) as sink:
        return write_checkpoint(sink, source)


def _sink_of(place: ObjectStore) -> Any:
    @contextmanager
    def open_sink(name: str) -> Iterator[Sink]:
        with place.open_output(LOG + name) as sink:
            yield sink

    return open_sink


def _files(batches: Any, names: Names) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = {field.name: batch.column(field.name) for field in FILES_SCHEMA}
        paths = [names.path(path) for path in batch.column("path").to_pylist()]
        vectors = [
            None if text is None else codec.dumps(names.vector(codec.loads(text))).decode()
            for text in batch.column("deletion_vector").to_pylist()
        ]
        columns["path"] = pa.array(paths, pa.string())
        columns["deletion_vector"] = pa.array(vectors, pa.string())
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=FILES_SCHEMA)


def _tombstones(batches: Any, names: Names) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        actions = [
            codec.dumps(names.action(codec.loads(text))).decode()
            for text in batch.column("action").to_pylist()
        ]
        yield pa.RecordBatch.from_arrays([pa.array(actions, pa.string())], schema=batch.schema)


# --- files ------------------------------------------------------------------------------------


def copy_objects(
    source: ObjectStore,
    place: ObjectStore,
    names: Names,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, int]:
    """Copy objects in bounded memory; returns how many, and how many no longer existed."""
    copied = missing = 0
    total = len(names)
    for number, key in enumerate(names.keys()):
        if progress is not None:
            progress(number, total)
        found = source.head(key)
        if found is None:
            # Vacuumed: only old versions refer to it, which can't be read in the table either.
            missing += 1
            continue
        _copy(source, place, key, found.size)
        copied += 1
    return copied, missing


def _copy(source: ObjectStore, place: ObjectStore, key: str, size: int) -> None:
    # Objects appear whole: one of that size is the copy of an export that was interrupted.
    there = place.head(key)
    if there is None:
        with place.open_output(key) as sink, source.open_input(key, size=size) as data:
            while chunk := data.read(_CHUNK):
                sink.write(chunk)
        there = place.head(key)
    if there is None or there.size != size:
        raise StoreError(
            f"{key} was not copied",
            cause="another object has that name",
            remedy="export to an empty place",
        )
