"""What lies in a `_delta_log`, from one listing of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deltasql.delta_log.names import LOG, LogKind, LogName, parse_name
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
    """The objects of a log, by kind."""

    objects: tuple[tuple[LogName, ObjectInfo], ...] = ()
    commits: Mapping[int, ObjectInfo] = field(default_factory=dict)
    checkpoints: Mapping[int, tuple[FoundCheckpoint, ...]] = field(default_factory=dict)

    def of_kind(self, kind: LogKind) -> Iterator[tuple[LogName, ObjectInfo]]:
        """The objects of one kind, by name."""
        return (item for item in self.objects if item[0].kind is kind)

    def newest_first(self, upto: int) -> Iterator[FoundCheckpoint]:
        """The checkpoints up to a version, the newest first."""
        for version in sorted(self.checkpoints, reverse=True):
            if version <= upto:
                yield from self.checkpoints[version]

    def beyond(self, version: int) -> list[LogName]:
        """What belongs to later versions, the last first, so that no reader meets a gap."""
        found = [name for name, _ in self.objects if (name.version or 0) > version]
        return sorted(found, key=lambda name: (name.version or 0, name.name), reverse=True)


def list_log(objects: ObjectStore) -> LogListing:
    """List a log; objects that are not part of one are skipped."""
    found = []
    for item in objects.list(LOG.rstrip("/")):
        name = parse_name(item.path.removeprefix(LOG))
        if name is not None and name.kind is not LogKind.HADOOP_CHECKSUM:
            found.append((name, item))
    commits = {
        name.version: item
        for name, item in found
        if name.kind is LogKind.COMMIT and name.version is not None
    }
    return LogListing(tuple(found), commits, _checkpoints([name for name, _ in found]))


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
