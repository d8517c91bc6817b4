"""What several operations in one commit owe the change data feed.

Readers of a version with change files look at nothing else. So once one operation has written such
files, rows that another one added or removed as whole files must be in change files as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from deltasql.spec.actions import Action, AddFile, CdcFile, RemoveFile

CHANGE_TYPE = "_change_type"
# What readers of the feed see besides the table's own columns.
FEED_COLUMNS = frozenset((CHANGE_TYPE, "_commit_version", "_commit_timestamp"))
CHANGE_FOLDER = "_change_data"


@dataclass(slots=True)
class FeedDebt:
    """Files of operations that wrote no changes, next to operations that did."""

    has_changes: bool = False
    added: list[AddFile] = field(default_factory=list)
    _removes: list[RemoveFile] = field(default_factory=list)

    @property
    def is_due(self) -> bool:
        """Whether changes are missing."""
        return self.has_changes and bool(self.added or self._removes)

    @property
    def removed(self) -> list[AddFile]:
        """The removed files, to be read once more."""
        return [as_add(remove) for remove in self._removes]

    def note(self, actions: Iterable[Action]) -> None:
        """Remember one operation; one with changes has recorded all of its own."""
        done = list(actions)
        if any(isinstance(action, CdcFile) for action in done):
            self.has_changes = True
            return
        self.added += [a for a in done if isinstance(a, AddFile) and a.data_change]
        self._removes += [a for a in done if isinstance(a, RemoveFile) and a.data_change]

    def settle(self) -> None:
        """Forget everything: it is all recorded."""
        self.added, self._removes = [], []


def as_add(remove: RemoveFile, partition_names: Iterable[str] = ()) -> AddFile:
    """A removed file, to be read once more.

    In its removes, stock Delta names only those partition columns that are not null.
    """
    return AddFile(
        path=remove.path,
        size=remove.size or 0,
        modification_time=remove.deletion_timestamp or 0,
        partition_values={**dict.fromkeys(partition_names), **(remove.partition_values or {})},
        deletion_vector=remove.deletion_vector,
        base_row_id=remove.base_row_id,
        default_row_commit_version=remove.default_row_commit_version,
    )
