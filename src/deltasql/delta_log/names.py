"""The names of the objects in a `_delta_log`, made and parsed.

Names are relative to `_delta_log`, with `/` before what lies in one of its folders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from deltasql.errors import ValidationError

LOG: Final = "_delta_log/"
LAST_CHECKPOINT: Final = "_last_checkpoint"
SIDECARS: Final = "_sidecars"
STAGED_COMMITS: Final = "_staged_commits"

# Versions are signed 64-bit in every implementation.
_TOP_VERSION = 2**63 - 1
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class LogKind(Enum):
    """What an object of a `_delta_log` is."""

    COMMIT = "commit"
    CHECKPOINT = "checkpoint"
    V2_CHECKPOINT = "v2 checkpoint"
    CHECKPOINT_PART = "part of a checkpoint"
    CHECKSUM = "checksum"
    COMPACTION = "compaction"
    STAGED_COMMIT = "staged commit"
    SIDECAR = "sidecar"
    LAST_CHECKPOINT = "last checkpoint"
    # Hadoop's own checksum beside a file: `.V.json.crc`; wrong ones stop Spark (rule 36).
    HADOOP_CHECKSUM = "Hadoop checksum"


_READ: Final = frozenset(
    {LogKind.COMMIT, LogKind.CHECKPOINT, LogKind.V2_CHECKPOINT, LogKind.CHECKPOINT_PART}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """A parsed name; `version` is None for sidecars and the `_last_checkpoint`.

    A compaction covers `version` to `end`; part `part` of `parts` belongs to a multi-part
    checkpoint; `unique` is the id in names that have one; `of` is what a Hadoop checksum is for.
    """

    kind: LogKind
    name: str
    version: int | None = None
    end: int | None = None
    part: int | None = None
    parts: int | None = None
    unique: str | None = None
    of: str | None = None

    @property
    def is_read(self) -> bool:
        """Whether readers look for the newest version by it."""
        return self.kind in _READ


# --- making names ---------------------------------------------------------------------


def commit_name(version: int) -> str:
    """The commit file of a version."""
    return f"{_padded(version)}.json"


def checkpoint_name(version: int) -> str:
    """The classic checkpoint of a version."""
    return f"{_padded(version)}.checkpoint.parquet"


def v2_checkpoint_name(version: int, uuid: str) -> str:
    """A V2 checkpoint of a version; only for tables with the feature v2Checkpoint."""
    return f"{_padded(version)}.checkpoint.{_checked_uuid(uuid)}.parquet"


def sidecar_name(uuid: str) -> str:
    """A sidecar of a V2 checkpoint; its action holds the part after the folder."""
    return f"{SIDECARS}/{_checked_uuid(uuid)}.parquet"


def crc_name(version: int) -> str:
    """The version checksum of a version."""
    return f"{_padded(version)}.crc"


def _padded(version: int) -> str:
    if not 0 <= version <= _TOP_VERSION:
        raise ValidationError(
            f"{version} is not a version",
            cause="versions are 64-bit integers from 0",
            remedy="pass the version of a commit",
        )
    return f"{version:020d}"


def _checked_uuid(uuid: str) -> str:
    # Readers recognize V2 checkpoints by the exact form of the id.
    if re.fullmatch(_UUID, uuid) is None:
        raise ValidationError(
            f"{uuid!r:.80} is not a UUID",
            cause="the names of V2 checkpoints and their sidecars hold one",
            remedy="pass str(uuid.uuid4())",
        )
    return uuid


# --- parsing names --------------------------------------------------------------------

_V = r"(?P<version>[0-9]{20})"
_PATTERNS: tuple[tuple[LogKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (LogKind.COMMIT, rf"{_V}\.json"),
        (LogKind.CHECKPOINT, rf"{_V}\.checkpoint\.parquet"),
        (LogKind.CHECKSUM, rf"{_V}\.crc"),
        (LogKind.V2_CHECKPOINT, rf"{_V}\.checkpoint\.(?P<unique>{_UUID})\.(?:parquet|json)"),
        (
            LogKind.CHECKPOINT_PART,
            rf"{_V}\.checkpoint\.(?P<part>[0-9]{{10}})\.(?P<parts>[0-9]{{10}})\.parquet",
        ),
        (LogKind.COMPACTION, rf"{_V}\.(?P<end>[0-9]{{20}})\.compacted\.json"),
        (LogKind.STAGED_COMMIT, rf"{STAGED_COMMITS}/{_V}\.(?P<unique>{_UUID})\.json"),
        (LogKind.SIDECAR, rf"{SIDECARS}/(?P<unique>[^/.][^/]*)\.parquet"),
        (LogKind.LAST_CHECKPOINT, LAST_CHECKPOINT),
        (LogKind.HADOOP_CHECKSUM, r"(?P<folder>(?:[^/]+/)?)\.(?P<of>[^/]+)\.crc"),
    )
)


def parse_name(name: str) -> LogName | None:
    """What an object is, by its name; None for temporary files and anything else."""
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(name)
        if match is not None:
            return _parsed(kind, name, match.groupdict())
    return None


def _parsed(kind: LogKind, name: str, found: dict[str, str]) -> LogName | None:
    numbers = {key: int(found[key]) for key in ("version", "end", "part", "parts") if key in found}
    if any(number > _TOP_VERSION for number in numbers.values()):
        return None
    if "end" in numbers and numbers["end"] <= numbers["version"]:
        return None
    if "parts" in numbers and not 1 <= numbers["part"] <= numbers["parts"]:
        return None
    of = found["folder"] + found["of"] if "of" in found else None
    return LogName(kind=kind, name=name, unique=found.get("unique"), of=of, **numbers)
