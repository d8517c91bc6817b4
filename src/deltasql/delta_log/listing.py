"""What lies in a `_delta_log`, from one listing of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deltasql.delta_log.log_files import VersionedFiles
from deltasql.delta_log.names import LOG, LogKind, LogName, commit_name, crc_name, parse_name
from deltasql.objectstore import ObjectInfo, ObjectStore

# Where repair puts what it takes out of the log: readers don't look there.
ASIDE = "_deltasql_aside"


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint whose files are all listed; names are relative to `_delta_log`."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogListing:
    """The objects of a log, by kind. Each version has a commit file and perhaps a checksum, which
    are kept as numbers; `others` are few.
    """

    commits: VersionedFiles = field(default_factory=lambda: VersionedFiles(commit_name))
    checksums: VersionedFiles = field(default_factory=lambda: VersionedFiles(crc_name))
    others: tuple[tuple[LogName, ObjectInfo], ...] = ()
    checkpoints: Mapping[int, tuple[FoundCheckpoint, ...]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing that belongs to a log is there."""
        return not (self.commits or self.checksums or self.others)

    def names(self) -> Iterator[LogName]:
        """Everything that is there, kind after kind."""
        for kind, files in self._versioned:
            for version in files:
                yield LogName(kind=kind, name=files.name(version), version=version)
        yield from (name for name, _ in self.others)

    @property
    def _versioned(self) -> tuple[tuple[LogKind, VersionedFiles], ...]:
        return (LogKind.COMMIT, self.commits), (LogKind.CHECKSUM, self.checksums)

    def of_kind(self, kind: LogKind) -> Iterator[tuple[LogName, ObjectInfo]]:
        """The objects of one kind of `others`, by name."""
        return (item for item in self.others if item[0].kind is kind)

    def newest_first(self, upto: int) -> Iterator[FoundCheckpoint]:
        """The checkpoints up to a version, the newest first."""
        for version in sorted(self.checkpoints, reverse=True):
            if version <= upto:
                yield from self.checkpoints[version]

    def beyond(self, version: int) -> list[LogName]:
        """What belongs to later versions, the last first, so that no reader meets a gap."""
        found = [name for name in self.names() if (name.version or 0) > version]
        return sorted(found, key=lambda name: (name.version or 0, name.name), reverse=True)


def list_log(objects: ObjectStore) -> LogListing:
    """List a log; objects that are not part of one are skipped."""
    commits, checksums = VersionedFiles(commit_name), VersionedFiles(crc_name)
    versioned = {LogKind.COMMIT: commits, LogKind.CHECKSUM: checksums}
    others = []
    for item in objects.list(LOG.rstrip("/")):
        name = parse_name(item.path.removeprefix(LOG))
        if name is None or name.kind is LogKind.HADOOP_CHECKSUM:
            continue
        files = versioned.get(name.kind)
        if files is None or name.version is None:
            others.append((name, item))
        else:
            files.add(name.version, item)
    return LogListing(commits, checksums, tuple(others), _checkpoints([name for name, _ in others]))


def checkpoints_of(objects: ObjectStore, version: int) -> tuple[FoundCheckpoint, ...]:
    """The checkpoints of a version, without listing what is before it."""
    start = f"{LOG}{version:020d}."
    names = []
    for item in objects.list(LOG.rstrip("/"), start_after=start):
        if not item.path.startswith(start):
            break
        name = parse_name(item.path.removeprefix(LOG))
        if name is not None:
            names.append(name)
    return _checkpoints(names).get(version, ())


def names_after(objects: ObjectStore, version: int) -> Iterator[LogName]:
    """What belongs to later versions, without listing what is before them."""
    start = LOG + commit_name(version) if version >= 0 else None
    for item in objects.list(LOG.rstrip("/"), start_after=start):
        name = item.path.removeprefix(LOG)
        if not name[:1].isdigit():
            return  # listed by name: no version follows
        found = parse_name(name)
        if found is not None and (found.version or 0) > version:
            yield found


def newest_after(objects: ObjectStore, version: int) -> LogName | None:
    """The newest commit file or checkpoint of a later version, which readers would start from.

    There may be a gap before it: a bridge leaves one until the versions below it are filled in.
    """
    names = [name for name in names_after(objects, version) if name.is_read]
    # A checkpoint that lacks a part is read by nobody.
    whole = {part for found in _checkpoints(names).values() for one in found for part in one.names}
    found = (name for name in names if name.kind is LogKind.COMMIT or name.name in whole)
    return max(found, key=lambda name: name.version or 0, default=None)


def _checkpoints(names: list[LogName]) -> dict[int, tuple[FoundCheckpoint, ...]]:
    found: dict[int, list[FoundCheckpoint]] = defaultdict(list)
    parts: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in names:
        if name.version is None:
            continue
        if name.kind in (LogKind.CHECKPOINT, LogKind.V2_CHECKPOINT):
            found[name.version].append(FoundCheckpoint(name.version, (name.name,)))
        elif name.kind is LogKind.CHECKPOINT_PART and name.parts is not None:
            parts[name.version, name.parts].append(name.name)
    for (version, count), members in parts.items():
        if len(members) == count:
            found[version].append(FoundCheckpoint(version, tuple(sorted(members))))
    return {version: tuple(items) for version, items in found.items()}
