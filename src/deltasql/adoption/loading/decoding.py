"""Commit files written by others, decoded and checked line by line.

What a writer must not do and a reader could only guess at is refused, with file and line; what is
merely unknown is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from deltasql.adoption.loading.outside import PathRules
from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
    UnknownAction,
)
from deltasql.spec.partition_values import check_storable, is_too_long
from deltasql.spec.protocol import check_well_formed
from deltasql.spec.schema import parse_schema

# The longest line of a commit file.
MOST_LINE: Final = 64 * 1024 * 1024
_NUL: Final = b"\\u0000"
# Where counting quotes and colons could be wrong.
_ODD: Final = (b"\\\\", b" :", b"\t:", b"\r:")


class Line(NamedTuple):
    """An action and its position, as `file:line`."""

    action: Action
    source: str


def read_lines(body: bytes, name: str) -> Iterator[Line]:
    """The actions of a commit file, in its order."""
    for number, line in numbered_lines(body, name):
        if line and not line.isspace():
            yield decode_line(line, f"{name}:{number}")


def numbered_lines(body: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a commit file with their numbers; only one is in memory beside the file."""
    number = at = 0
    while at <= len(body):
        end = body.find(b"\n", at)
        end = len(body) if end < 0 else end
        number += 1
        if end - at > MOST_LINE:
            raise LogFormatError(
                f"{name}:{number}: the line has {end - at} bytes",
                cause=f"an action has at most {MOST_LINE}: real ones are shorter, and it would "
                "be in memory several times",
                remedy="restore the file from a copy",
            )
        yield number, body[at:end]
        at = end + 1


def decode_line(line: bytes, source: str) -> Line:
    """One action, whose JSON must have no duplicate keys and whose texts no NUL."""
    value = codec.loads(line, source=source)
    action = codec.from_wire(value, source=source)
    # A quote before a colon ends a key, unless a backslash marks it as part of a text.
    keys = line.count(b'":') - line.count(b'\\":')
    if keys != _keys_in(value) or any(odd in line for odd in _ODD):
        _refuse_doubled_keys(line, source)
    if _NUL in line:
        refuse_nul(action, source)
    return Line(action, source)


def _keys_in(value: Any) -> int:
    if type(value) is dict:
        count = len(value)
        for item in value.values():
            if type(item) in (dict, list):
                count += _keys_in(item)
        return count
    return sum(_keys_in(item) for item in value) if type(value) is list else 0


def _refuse_doubled_keys(line: bytes, source: str) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise LogFormatError(
                f"{source}: the key {twice!r:.80} appears twice",
                cause="readers would disagree on which one counts",
                remedy="restore the file from a copy",
            )
        return found

    json.loads(line, object_pairs_hook=unique)


def refuse_nul(action: Action, source: str) -> None:
    """Raise `LogFormatError` for a text with a NUL character that a database is to store."""
    for text in _texts(action):
        if text is not None and "\0" in text:
            raise LogFormatError(
                f"{source}: a string contains a NUL character",
                cause="PostgreSQL can't store one",
                remedy="rewrite the table without it, with the writer that made it",
            )


def _texts(action: Action) -> Sequence[str | None]:
    match action:
        case AddFile() | RemoveFile():
            values = action.partition_values or {}
            provider = getattr(action, "clustering_provider", None)
            return (action.path, action.stats, provider, *values, *values.values())
        case CdcFile():
            return (action.path,)
        case Protocol():
            return (*(action.reader_features or ()), *(action.writer_features or ()))
        case Txn():
            return (action.app_id,)
        case DomainMetadata():
            return (action.domain, action.configuration)
        case Metadata():
            return (action.schema_string,)
    return ()


# --- what a commit as a whole must be -----------------------------------------------------


class Commit:
    """What was seen of one commit so far: most things may occur only once."""

    __slots__ = ("_paths", "_seen", "info", "metadata", "protocol")

    def __init__(self, paths: PathRules) -> None:
        self._paths = paths
        self.info: CommitInfo | None = None
        self.metadata: Metadata | None = None
        self.protocol: Protocol | None = None
        self._seen: set[tuple[str, str, str]] = set()

    def look_at(self, line: Line) -> None:
        """Note an action; `LogFormatError` if the commit can't have it as well."""
        action = line.action
        match action:
            case AddFile() | RemoveFile():
                if any(map(is_too_long, action.partition_values or ())):
                    check_storable(action.partition_values or {}, source=line.source)
                self._paths.look_at(action, line.source)
                self._once("file", action.path, action.dv_id, line.source)
            case Txn():
                self._once("txn", action.app_id, "", line.source)
            case DomainMetadata():
                self._once("domainMetadata", action.domain, "", line.source)
            case Metadata():
                self._once("metaData", "", "", line.source)
                check_metadata(action, line.source)
                self.metadata = action
            case Protocol():
                self._once("protocol", "", "", line.source)
                check_protocol(action, line.source)
                self.protocol = action
            case CommitInfo():
                self.info = self.info or action
            case CdcFile():
                self._paths.look_at(action, line.source)
            case UnknownAction():
                pass

    def _once(self, kind: str, name: str, detail: str, source: str) -> None:
        key = (kind, name, detail)
        if key in self._seen:
            what = f"{kind} {name!r:.200}" if name else kind
            raise LogFormatError(
                f"{source}: the commit has {what} twice",
                cause="the actions of a commit have no order, so it is undefined which one counts",
                remedy="restore the file from a copy",
            )
        self._seen.add(key)


def check_metadata(metadata: Metadata, source: str) -> None:
    """Raise unless the schema can be read and the data is Parquet."""
    if metadata.format.provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"{source}: the data files are {metadata.format.provider!r:.80}",
            cause="Delta tables are made of Parquet",
            remedy="see docs/features.md",
            features=(f"format {metadata.format.provider}",),
        )
    _at(source, lambda: parse_schema(metadata.schema_string))


def check_protocol(protocol: Protocol, source: str) -> None:
    """Raise unless versions and feature lists fit each other."""
    _at(source, lambda: check_well_formed(protocol))


def _at(source: str, check: Any) -> None:
    try:
        check()
    except LogFormatError as error:
        raise replace(error, problem=f"{source}: {error.problem}") from None


def actions_of(lines: Iterable[Line]) -> list[Action]:
    """The actions alone."""
    return [line.action for line in lines]
