"""What repair says of what it found and did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class RepairReport:
    """What repair found and did.

    `restored` versions have their commit file again; `checkpoints` were written again;
    `conflicts` are objects with other bytes than SQL's, or of versions that SQL does not know
    (`ahead`), by name; `moved_aside` maps each that force took out to where it is now;
    `taken_back` versions came from the mirror into SQL; `cleaned_up` is how many of the
    oldest versions log cleanup took, which stay away; `errors` say what could not be done.
    """

    table: str
    restored: list[int] = field(default_factory=list)
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
