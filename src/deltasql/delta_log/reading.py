"""A table as its mirror alone shows it: commit files and checkpoints, without SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from deltasql.delta_log.checkpoint.parquet import decoded, opened, sidecar_name, values_in
from deltasql.delta_log.checkpoint.sidecars import Sidecar, named_sidecars
from deltasql.delta_log.checkpoint.writing import CheckpointSummary
from deltasql.delta_log.listing import FoundCheckpoint, LogListing
from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import LogFormatError, MirrorError, MirrorGapError
from deltasql.log.file_sums import FileSum, FileSums
from deltasql.log.replay import Replay
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, RemoveFile, UnknownAction
from deltasql.spec.shapes import KINDS, SHAPES
from deltasql.store.checking.content import hashes_of_add
from deltasql.store.checking.scratch import Scratch
from deltasql.store.rows import key_of

_FILES: Final = ("add", "remove")
# Rows become objects in memory, each many times as large.
_BATCH: Final = 4096
_IN_CHECKPOINTS: Final = ("protocol", "metaData", "txn", "domainMetadata", *_FILES)


class FilesAside(Replay):
    """A replay that keeps its files in a scratch database: there may be very many."""

    __slots__ = ("scratch",)

    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self.scratch = scratch

    def _take_file(self, action: AddFile | RemoveFile) -> None:
        key = key_of(action.path) + key_of(action.dv_id)
        if isinstance(action, RemoveFile):
            self.scratch.take(key)
            return
        version = self.version or 0
        self.scratch.add(key, b"", file=hashes_of_add(action), version=version, path=action.path)


def read_mirror(
    objects: ObjectStore, listing: LogListing, version: int, replay: Replay
) -> int | None:
    """Replay the log up to a version, starting like readers at the newest sound checkpoint;
    returns its version.
    """
    start = None
    for found in listing.newest_first(version):
        if checkpoint_fault(objects, found) is None:
            replay.apply(found.version, checkpoint_actions(objects, found))
            start = found.version
            break
    for number in range(0 if start is None else start + 1, version + 1):
        if number not in listing.commits:
            raise MirrorGapError(
                f"the mirror can't be read up to version {version}",
                cause=f"{commit_name(number)} is missing, and no sound checkpoint is after it",
                remedy="run mirror.repair(): it writes what is missing",
                version=number,
            )
        body = objects.read(LOG + commit_name(number))
        replay.apply(number, codec.decode_commit(body, source=commit_name(number)))
    return start


# --- checkpoints ----------------------------------------------------------------------


def checkpoint_fault(objects: ObjectStore, found: FoundCheckpoint) -> str | None:
    """Why a checkpoint can't be read; None for a sound one. Reads footers, not rows."""
    try:
        for name in found.names:
            for sidecar in sidecars_of(objects, name):
                _must_open(objects, sidecar)
            if name.endswith(".parquet"):
                _must_open(objects, name)
    except (MirrorError, LogFormatError, FileNotFoundError) as error:
        return str(getattr(error, "cause", "") or error)
    return None


def checkpoint_summary(objects: ObjectStore, found: FoundCheckpoint) -> CheckpointSummary:
    """What `_last_checkpoint` says about an existing checkpoint."""
    names = [*found.names]
    for name in found.names:
        names += sidecars_of(objects, name)
    rows = adds = size = 0
    for name in names:
        size += objects.size(LOG + name)
        if name.endswith(".parquet"):
            counted = _rows(objects, name)
            rows, adds = rows + counted[0], adds + counted[1]
        else:
            rows += len(_json_actions(objects, name))
    return CheckpointSummary(
        version=found.version, size=rows, size_in_bytes=size, num_of_add_files=adds
    )


def checkpoint_sums(objects: ObjectStore, found: FoundCheckpoint) -> FileSums:
    """The sums over the files that are live according to a checkpoint."""
    sums = FileSum()
    for action in checkpoint_actions(objects, found, kinds=("add",)):
        if isinstance(action, AddFile):
            sums.add(hashes_of_add(action))
    return sums.value()


def checkpoint_actions(
    objects: ObjectStore, found: FoundCheckpoint, *, kinds: tuple[str, ...] = _IN_CHECKPOINTS
) -> Iterator[Action]:
    """The actions of a checkpoint, including its sidecars'; from JSON, actions of all kinds."""
    for name in found.names:
        if name.endswith(".json"):
            for action in _json_actions(objects, name):
                if not isinstance(action, UnknownAction):
                    yield action
        else:
            yield from _parquet_actions(objects, name, kinds)
        for sidecar in sidecars_of(objects, name):
            yield from _parquet_actions(
                objects, sidecar, tuple(kind for kind in _FILES if kind in kinds)
            )


def sidecars_of(objects: ObjectStore, name: str) -> list[str]:
    """The sidecars that a checkpoint's top file names, relative to `_delta_log`."""
    if name.endswith(".json"):
        found = [
            action.value
            for action in _json_actions(objects, name)
            if isinstance(action, UnknownAction) and action.name == "sidecar"
        ]
    else:
        with opened(objects, name, _unreadable(name)) as file:
            # A column that is not a struct has no `path`, and is not read.
            column = file.read(columns=["sidecar.path"])
            if "sidecar" not in column.column_names:
                return []
            found = column.column("sidecar").drop_null().to_pylist()
    return [sidecar_name(item, name) for item in found]


def sidecar_details(objects: ObjectStore, found: FoundCheckpoint) -> list[Sidecar]:
    """The sidecars of a checkpoint in Parquet, with what its top file says about them."""
    details: list[Sidecar] = []
    for name in found.names:
        if name.endswith(".parquet"):
            with opened(objects, name, _unreadable(name)) as file:
                if "sidecar" in file.schema_arrow.names:
                    column = file.read(columns=["sidecar"]).column("sidecar").drop_null()
                    details += named_sidecars(column.to_pylist(maps_as_pydicts="strict"))
    return details


def _json_actions(objects: ObjectStore, name: str) -> list[Action]:
    return codec.decode_commit(objects.read(LOG + name), source=name)


def _parquet_actions(objects: ObjectStore, name: str, kinds: tuple[str, ...]) -> Iterator[Action]:
    with opened(objects, name, _unreadable(name)) as file:
        present = [kind for kind in kinds if kind in file.schema_arrow.names]
        # By name, so that the typed repetition (`stats_parsed`) is not even read.
        columns = [f"{kind}.{wire}" for kind in present for wire in SHAPES[KINDS[kind]].by_wire]
        for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
            for kind in present:
                yield from decoded(kind, batch.column(kind), name)


def _rows(objects: ObjectStore, name: str) -> tuple[int, int]:
    """How many actions a file has, and how many of them are adds, from its footer."""
    with opened(objects, name, _unreadable(name)) as file:
        return file.metadata.num_rows, values_in(file, "add.path")


def _must_open(objects: ObjectStore, name: str) -> None:
    with opened(objects, name, _unreadable(name)):
        pass


def _unreadable(name: str) -> Callable[[str], MirrorError]:
    return lambda cause: MirrorError(
        f"{name} can't be read",
        cause=cause,
        remedy="run mirror.repair(): it writes broken checkpoints again",
        path=name,
    )
