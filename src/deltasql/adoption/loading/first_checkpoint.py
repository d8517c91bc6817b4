"""The checkpoint that a history begins with, as rows: a million files in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from typing import Protocol as Interface

import pyarrow as pa

from deltasql.adoption.loading.checkpoint_adds import AddReader, said_twice
from deltasql.adoption.loading.decoding import check_metadata, check_protocol, refuse_nul
from deltasql.adoption.loading.outside import PathRules
from deltasql.adoption.loading.parts import Parts
from deltasql.data.reading.footer import ParquetFile
from deltasql.delta_log.checkpoint.parquet import decoded, opened, sidecar_name, values_in
from deltasql.delta_log.listing import FoundCheckpoint
from deltasql.errors import LogFormatError
from deltasql.log.file_sums import FileSums
from deltasql.log.pruning.stats_columns import stats_columns
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
    UnknownAction,
)
from deltasql.spec.schema import parse_schema
from deltasql.store.rows import RemoveRow, to_rows

_LOG: Final = "_delta_log/"
_BATCH: Final = 20_000
_NOT_FILES: Final = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")
_KINDS: Final = {Txn: "txn", DomainMetadata: "domainMetadata"}
# What a checkpoint repeats in typed form.
_TYPED: Final = ("stats_parsed", "partitionValues_parsed")


class LiveKeys(Interface):
    """The keys of a checkpoint's files; a set will do."""

    def intersection(self, keys: Iterable[bytes], /) -> set[bytes]:
        """Those of some keys that are here."""

    def update(self, keys: Iterable[bytes], /) -> None:
        """Take some more."""


@dataclass(frozen=True, slots=True)
class LoadedAdds:
    """The adds of a checkpoint's Parquet files, once they are passed on, and sums over them, if
    whoever read them knows.
    """

    live: LiveKeys
    sums: FileSums | None = None


@dataclass(frozen=True, slots=True)
class LoadedBase:
    """The table at a checkpoint's version, and sums over its files, if they are known."""

    state: TableState
    sums: FileSums | None


def load_adds(base: Base, state: TableState, parts: Parts, paths: PathRules) -> LoadedAdds:
    """Pass on the adds of a checkpoint's Parquet files, one batch after the other."""
    live: set[bytes] = set()
    adds = AddReader(base.version, state.stats_columns, live, paths)
    for name in base.files:
        for batch in base.batches(name, "add"):
            rows, partitions = adds.rows(batch, name)
            parts.take_live(rows, partitions)
    return LoadedAdds(live)


# Something else that does what `load_adds` does.
LoadAdds: TypeAlias = Callable[["Base", TableState, Parts, PathRules], LoadedAdds]


def load_base(
    objects: ObjectStore,
    found: FoundCheckpoint,
    parts: Parts,
    paths: PathRules,
    load_adds: LoadAdds = load_adds,
) -> LoadedBase:
    """Pass a checkpoint's actions on."""
    try:
        return _load(objects, found, parts, paths, load_adds)
    except UnicodeDecodeError as error:
        raise unreadable(found.names[0])(str(error)) from None


def _load(
    objects: ObjectStore,
    found: FoundCheckpoint,
    parts: Parts,
    paths: PathRules,
    load_adds: LoadAdds,
) -> LoadedBase:
    base = Base(objects, found)
    state = base.state()
    version = found.version
    others = [*base.others.values(), state.metadata, state.protocol]
    parts.take(version, to_rows(others, state.stats_columns))
    loaded = load_adds(base, state, parts, paths)
    for name in base.files:
        for batch in base.batches(name, "remove"):
            removes = [
                action
                for action in base.actions(batch, "remove", name)
                if isinstance(action, RemoveFile)
            ]
            for remove in removes:
                paths.look_at(remove, _LOG + name)
            _take_tombstones(to_rows(removes, ()).removes, version, parts, loaded.live)
    for piece in base.written_out:
        _load_inline(piece, found, state, parts, paths, loaded.live)
    return LoadedBase(state, None if base.written_out else loaded.sums)


def _take_tombstones(
    removes: Sequence[RemoveRow], version: int, parts: Parts, live: LiveKeys
) -> None:
    known = live.intersection(row.path_key + row.dv_key for row in removes)
    parts.take_tombstones(
        version, [row for row in removes if row.path_key + row.dv_key not in known]
    )


def _load_inline(
    piece: list[Action],
    found: FoundCheckpoint,
    state: TableState,
    parts: Parts,
    paths: PathRules,
    live: LiveKeys,
) -> None:
    """Pass on the files that a JSON V2 checkpoint has inline."""
    name = found.names[0]
    for action in piece:
        if isinstance(action, AddFile | RemoveFile):
            paths.look_at(action, _LOG + name)
    rows = to_rows(piece, state.stats_columns)
    keys = [row.path_key + row.dv_key for row in rows.adds]
    known = live.intersection(keys)
    for key, row in zip(keys, rows.adds, strict=True):
        if key in known:
            raise said_twice(name, f"the file {row.path!r:.200}")
        known.add(key)
    live.update(keys)
    parts.take_live([(found.version, *row) for row in rows.adds], rows.partitions)
    _take_tombstones(rows.removes, found.version, parts, live)


class Base:
    """The files of a checkpoint, and everything in them except the table's files."""

    def __init__(self, objects: ObjectStore, found: FoundCheckpoint) -> None:
        self._objects = objects
        self._found = found
        self.files: list[str] = []
        self.others: dict[tuple[type[Action], str], Action] = {}
        self.written_out: list[list[Action]] = []
        self._protocols: list[Protocol] = []
        self._metadata: list[Metadata] = []
        for name in found.names:
            sidecars = list(self._read_top(name))
            if name.endswith(".parquet"):
                self.files.append(name)
            self.files += sidecars

    def _read_top(self, name: str) -> Iterator[str]:
        """Take the actions other than files; yields the sidecars that the file names."""
        for action in self._top_actions(name):
            match action:
                case Protocol():
                    check_protocol(action, _LOG + name)
                    self._protocols.append(action)
                case Metadata():
                    check_metadata(action, _LOG + name)
                    self._metadata.append(action)
                case Txn(app_id=owner) | DomainMetadata(domain=owner):
                    key = (type(action), owner)
                    if key in self.others:
                        raise said_twice(name, f"the {_KINDS[type(action)]} of {owner!r:.200}")
                    self.others[key] = action
                case UnknownAction(name="sidecar", value=sidecar):
                    yield sidecar_name(sidecar, _LOG + name)

    def _top_actions(self, name: str) -> Iterator[Action]:
        if name.endswith(".json"):
            actions = codec.decode_commit(self._objects.read(_LOG + name), source=_LOG + name)
            for item in actions:
                refuse_nul(item, _LOG + name)
            files: list[Action] = [
                item for item in actions if isinstance(item, AddFile | RemoveFile)
            ]
            if files:
                self.written_out.append(files)
            yield from actions
            return
        for kind in _NOT_FILES:
            for batch in self.batches(name, kind):
                yield from self.actions(batch, kind, name)

    def state(self) -> TableState:
        """The table, or `LogFormatError` if the checkpoint does not define it."""
        name = _LOG + self._found.names[0]
        for kind, found in (("protocol", self._protocols), ("metaData", self._metadata)):
            if len(found) != 1:
                raise LogFormatError(
                    f"{name}: the checkpoint has {len(found)} {kind} actions",
                    cause="a checkpoint has exactly one of each",
                    remedy="restore it from a copy, or the commit files before it",
                    version=self._found.version,
                )
        (protocol,), (metadata,) = self._protocols, self._metadata
        version = self._found.version
        return TableState(
            version=version,
            in_commit_timestamp=0,
            metadata=metadata,
            metadata_version=version,
            protocol=protocol,
            protocol_version=version,
            stats_columns=stats_columns(
                parse_schema(metadata.schema_string), metadata.partition_columns
            ),
        )

    @property
    def location(self) -> str:
        """Where the table is."""
        return self._objects.location

    @property
    def version(self) -> int:
        """The checkpoint's version."""
        return self._found.version

    def batches(self, name: str, kind: str) -> Iterator[pa.StructArray]:
        """The actions of a kind, in batches."""
        try:
            yield from batches_of(self._objects, name, kind)
        except FileNotFoundError as error:
            raise unreadable(name)(str(error).splitlines()[0]) from None

    def actions(self, batch: pa.StructArray, kind: str, name: str) -> Iterator[Action]:
        """The actions of a batch, decoded one by one."""
        for action in decoded(kind, batch, _LOG + name):
            refuse_nul(action, _LOG + name)
            yield action


def batches_of(
    objects: ObjectStore, name: str, kind: str, rows: range | None = None, *, typed: bool = True
) -> Iterator[pa.StructArray]:
    """The actions of a kind in a file of a checkpoint, in batches: of all rows, or of some.

    `typed` says that typed statistics stand in for those that are not there as texts.
    """
    with opened(objects, name, unreadable(name)) as file:
        columns = _columns(file, kind, typed=typed)
        if not columns:
            return
        for batch in _batches(file, columns, rows):
            found = batch.column(kind).drop_null()
            if len(found):
                yield found


def _batches(file: ParquetFile, columns: list[str], rows: range | None) -> Iterator[pa.RecordBatch]:
    if rows is None:
        yield from file.iter_batches(batch_size=_BATCH, columns=columns)
        return
    groups, at = [], None
    for index, group in enumerate(_row_groups(file)):
        if group.start < rows.stop and rows.start < group.stop:
            groups.append(index)
            at = group.start if at is None else at
    if at is None:
        return
    for batch in file.iter_batches(batch_size=_BATCH, columns=columns, row_groups=groups):
        start, stop = max(rows.start - at, 0), min(rows.stop - at, len(batch))
        at += len(batch)
        if start < stop:
            yield batch.slice(start, stop - start)
        if at >= rows.stop:
            return


def _row_groups(file: ParquetFile) -> Iterator[range]:
    """The numbers of the rows in each row group."""
    at = 0
    for index in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(index).num_rows
        yield range(at, at + count)
        at += count


def unreadable(name: str) -> Callable[[str], LogFormatError]:
    """Makes the error for a file of a checkpoint from its cause."""
    return lambda cause: LogFormatError(
        f"{_LOG}{name} can't be read",
        cause=cause,
        remedy="restore it from a copy, or the commit files before it",
    )


def _columns(file: ParquetFile, kind: str, *, typed: bool) -> list[str]:
    """The columns of a kind of action, without those repeated in typed form."""
    schema = file.schema_arrow
    if kind not in schema.names or not pa.types.is_struct(schema.field(kind).type):
        return []
    names = [field.name for field in schema.field(kind).type]
    found = [f"{kind}.{name}" for name in names if name not in _TYPED]
    if typed and kind == "add" and "stats_parsed" in names and not values_in(file, "add.stats"):
        found.append("add.stats_parsed")
    return found
