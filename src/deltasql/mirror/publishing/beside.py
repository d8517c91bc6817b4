"""What accompanies a publish run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltasql.mirror.publishing.late_checksums import LateChecksums


@dataclass(frozen=True, slots=True)
class Beside:
    """`has_seen` tells whether a version's file was seen a moment ago; `tell_published` is called
    with what is visible. Checksum files are written with the commit files, or after them by
    `late_checksums`. A backlog that takes longer than `bridged_after` seconds is bridged. Repair
    mirrors a paused table, too; whoever `heeds_pauses` does not.
    """

    has_seen: Callable[[int], bool] = lambda _: False
    tell_published: Callable[[int], None] = lambda _: None
    late_checksums: LateChecksums | None = None
    bridged_after: float | None = None
    heeds_pauses: bool = False
