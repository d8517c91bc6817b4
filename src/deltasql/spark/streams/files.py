"""What a stream of a table reads: its files in order, from one position to another.

A stream begins with the existing files, and continues with those that each version adds. A position
names a version and how many of its files were read, so that two positions always delimit the same
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.lake.feed.rows import version_since
from deltasql.lake.history import Change
from deltasql.lake.table import Table
from deltasql.log.feed import CHANGE_TYPE
from deltasql.log.state import TableState
from deltasql.spark.native.changes import (
    TIMESTAMP,
    VERSION,
    ChangedFiles,
    feed_state,
    must_have_feed,
)
from deltasql.spec.actions import AddFile, Metadata, RemoveFile
from deltasql.spec.schema import parse_schema

OPTIONS = frozenset(
    {
        "startingversion",
        "startingtimestamp",
        "maxfilespertrigger",
        "ignoredeletes",
        "skipchangecommits",
        "readchangefeed",
    }
)
# As in stock Delta.
DEFAULT_MAX_FILES = 1000
# How many versions are decoded at a time.
_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has read: a number of files of a version, and none of later ones.

    `initial` counts the files of the whole table as it was at that version.
    """

    version: int
    index: int = 0
    initial: bool = False

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        """Parse what Spark keeps in its checkpoint."""
        return cls(int(offset["version"]), int(offset["index"]), bool(offset["initial"]))

    @property
    def held_version(self) -> int:
        """The version that has, or had until then, all files that are read from here on."""
        return self.version if self.initial else max(self.version - 1, 0)

    def as_offset(self) -> dict[str, Any]:
        """For Spark's checkpoint."""
        return {"version": self.version, "index": self.index, "initial": self.initial}


@dataclass(frozen=True, slots=True)
class StreamFile:
    """A file, and where its rows say what change they are: nowhere, inside, or beside it."""

    add: AddFile
    kind: str = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a stream is read."""

    starting_version: int | str | None = None
    starting_timestamp: str | None = None
    max_files: int = DEFAULT_MAX_FILES
    ignore_deletes: bool = False
    skip_change_commits: bool = False
    change_feed: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StreamOptions:
        """The options of `readStream`, checked."""
        options = {key.lower(): value for key, value in given.items()}
        version: int | str | None = options.get("startingversion")
        timestamp = options.get("startingtimestamp")
        if version is not None and timestamp is not None:
            raise ValidationError(
                "startingVersion and startingTimestamp were both given", remedy="give one of them"
            )
        if version is not None and version != "latest":
            version = _number("startingVersion", str(version))
        given_most = options.get("maxfilespertrigger", str(DEFAULT_MAX_FILES))
        most = _number("maxFilesPerTrigger", given_most)
        if most < 1:
            raise ValidationError("maxFilesPerTrigger is 0", remedy="give a positive number")
        return cls(
            starting_version=version,
            starting_timestamp=timestamp,
            max_files=most,
            ignore_deletes=_truth("ignoreDeletes", options.get("ignoredeletes")),
            skip_change_commits=_truth("skipChangeCommits", options.get("skipchangecommits")),
            change_feed=_truth("readChangeFeed", options.get("readchangefeed")),
        )


class StreamFiles:
    """The files of a table as a stream reads them."""

    def __init__(self, table: Table, state: TableState, options: StreamOptions) -> None:
        self._table = table
        self._state = state
        self._options = options
        self._initial: tuple[int, list[StreamFile]] | None = None

    @property
    def table_id(self) -> int:
        """The id in SQL of the table that is read."""
        return self._table.table_id

    def first(self) -> Position:
        """Where a new stream begins."""
        options = self._options
        if options.starting_version == "latest":
            return Position(self._table.version + 1)
        if options.starting_timestamp is not None:
            return Position(version_since(self._table, options.starting_timestamp))
        if options.starting_version is not None:
            return Position(int(options.starting_version))
        return Position(self._table.version, initial=True)

    def after(self, start: Position, *, most: int | None, head: int) -> Position:
        """The position that is `most` files further, but not beyond the version `head`."""
        left = most
        position = start
        for version, initial, files in self._from(start, head):
            begin = position.index if position.version == version else 0
            count = len(files) - begin
            if left is not None and count > left:
                return Position(version, begin + left, initial)
            left = None if left is None else left - count
            position = Position(version + 1)
            if left == 0:
                return position
        return position

    def between(self, start: Position, end: Position) -> list[StreamFile]:
        """The files from one position up to another."""
        found: list[StreamFile] = []
        upto = end.version if end.index else end.version - 1
        for version, initial, files in self._from(start, upto):
            here = Position(version, 0, initial)
            begin = start.index if _same(start, here) else 0
            stop = end.index if _same(end, here) else len(files)
            found += files[begin:stop]
        return found

    # --- the files of a version -----------------------------------------------------------

    def _from(self, start: Position, head: int) -> Iterator[tuple[int, bool, list[StreamFile]]]:
        version = start.version
        if start.initial:
            yield version, True, self._of_snapshot(version)
            version += 1
        while version <= head:
            last = min(version + _VERSIONS - 1, head)
            for change in self._table.changes(version, last):
                yield change.version, False, self._of_version(change)
            version = last + 1

    def _of_snapshot(self, version: int) -> list[StreamFile]:
        if self._initial is None or self._initial[0] != version:
            snapshot = self._table.snapshot(version=version)
            adds = sorted(snapshot.adds(), key=lambda add: (add.modification_time, add.path))
            if self._options.change_feed:
                must_have_feed(self._table.name, snapshot.state)
                change = Change(version, snapshot.timestamp, tuple(adds))
                self._initial = (version, self._of_feed(change))
            else:
                self._initial = (version, [StreamFile(add) for add in adds])
        return self._initial[1]

    def _of_version(self, change: Change) -> list[StreamFile]:
        self._schema_must_hold(change)
        if self._options.change_feed:
            return self._of_feed(change)
        adds = [a for a in change.actions if isinstance(a, AddFile) and a.data_change]
        removes = [a for a in change.actions if isinstance(a, RemoveFile) and a.data_change]
        if removes:
            if self._options.skip_change_commits or (self._options.ignore_deletes and not adds):
                return []
            raise _rows_went(self._table.name, change.version, changed=bool(adds))
        return [StreamFile(add) for add in adds]

    def _of_feed(self, change: Change) -> list[StreamFile]:
        found = ChangedFiles()
        found.take(change, self._table.objects)
        return [
            *(StreamFile(add, "inside") for add in found.changes),
            *(StreamFile(add, "beside") for add in (*found.inserts, *found.deletes)),
        ]

    def _schema_must_hold(self, change: Change) -> None:
        for action in change.actions:
            if not isinstance(action, Metadata) or change.version <= self._state.version:
                continue
            if parse_schema(action.schema_string) != self._state.schema:
                raise SchemaMismatchError(
                    f"the schema of {self._table.name} changed at version {change.version}",
                    cause=f"the stream was started with the schema of {self._state.version}",
                    remedy="start the stream again: it continues where it stopped, with the new "
                    "schema",
                    version=change.version,
                )


def state_of(kind: str, state: TableState) -> TableState:
    """The table's state for reading files of a kind."""
    if kind == "inside":
        return feed_state(state, in_files=(CHANGE_TYPE,), beside=(VERSION, TIMESTAMP))
    if kind == "beside":
        return feed_state(state, beside=(CHANGE_TYPE, VERSION, TIMESTAMP))
    return state


def bins(files: Sequence[StreamFile], size: int) -> Iterator[tuple[str, tuple[AddFile, ...]]]:
    """Files of one kind, in groups of about that many bytes."""
    for kind in sorted({item.kind for item in files}):
        waiting: list[AddFile] = []
        gathered = 0
        for item in files:
            if item.kind != kind:
                continue
            waiting.append(item.add)
            gathered += item.add.size
            if gathered >= size:
                yield kind, tuple(waiting)
                waiting, gathered = [], 0
        if waiting:
            yield kind, tuple(waiting)


def _same(position: Position, other: Position) -> bool:
    return (position.version, position.initial) == (other.version, other.initial)


def _rows_went(name: str, version: int, *, changed: bool) -> ValidationError:
    what = "changed or deleted rows" if changed else "deleted rows"
    option = "skip_change_commits" if changed else "ignore_deletes or skip_change_commits"
    return ValidationError(
        f"version {version} of {name} {what}, and the stream reads added ones only",
        cause="what was read before can't be taken back",
        remedy=f"leave such versions out with {option}=True, or stream the change feed",
        version=version,
    )


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValidationError(f"{name} is {text!r:.40}", remedy="give a number")
    return int(text)


def _truth(name: str, text: str | None) -> bool:
    if text is None or text.lower() in ("true", "false"):
        return text is not None and text.lower() == "true"
    raise ValidationError(f"{name} is {text!r:.40}", remedy='give "true" or "false"')
