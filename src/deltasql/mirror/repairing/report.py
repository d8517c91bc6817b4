"""What repair reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltasql.showing.report import Report


@dataclass(slots=True, kw_only=True, repr=False)
class RepairReport(Report):
    """What repair found and did.

    `restored` versions got their commit file back, and `checksums` a checksum file that was wrong;
    `checkpoints` were written again; `conflicts`
    are the names of objects whose bytes differ from SQL's, or whose versions SQL does not know
    (`ahead`); `moved_aside` maps each object that force moved to its new place; `taken_back`
    versions came from the mirror into SQL; `cleaned_up` counts the oldest versions, which log
    cleanup removed and which stay away; `errors` lists what could not be done.
    """

    table: str
    restored: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)
    moved_aside: dict[str, str] = field(default_factory=dict)
    taken_back: list[int] = field(default_factory=list)
    mirrored: int = 0
    cleaned_up: int = 0
    pointer_rewritten: bool = False
    errors: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the mirror is right now, as far as repair looked."""
        return not (self.conflicts or self.ahead or self.errors)
