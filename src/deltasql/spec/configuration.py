"""The configuration of a table's metadata, as it is written into a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deltasql.spec.actions import Action, Metadata
from deltasql.spec.properties import canonical_values


def canonical_metadata(actions: Sequence[Action]) -> Sequence[Action]:
    """The actions with the values of properties spelt as Delta spells them.

    Delta Spark takes `NAME` for `name`. Other readers don't, and would find no column.
    """
    if Metadata not in map(type, actions):
        return actions
    return [_canonical(item) if isinstance(item, Metadata) else item for item in actions]


def _canonical(metadata: Metadata) -> Metadata:
    wanted = canonical_values(metadata.configuration)
    return metadata if wanted == metadata.configuration else replace(metadata, configuration=wanted)
