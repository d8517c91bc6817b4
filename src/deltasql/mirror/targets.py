"""How the mirror represents tables."""

from __future__ import annotations

import json
from dataclasses import dataclass

from deltasql.log.retention import MIRROR_MODE, mirror_mode
from deltasql.store.mirroring.interface import Backlog


@dataclass(frozen=True, slots=True)
class Target:
    """A table as the mirror sees it; `mode` is its own setting, if it has one."""

    table_id: int
    name: str
    location: str
    mode: str | None = None


def target_of(item: Backlog) -> Target:
    """The table of a backlog."""
    is_set = MIRROR_MODE in item.properties
    mode = mirror_mode(json.loads(item.properties)) if is_set else None
    return Target(item.table_id, item.name, item.location, mode)
