"""The mirror status of many versions, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import MirrorRecord

_PAGE: Final = 5_000


def statuses(log: LogStore, table_id: int, *, first: int, last: int) -> Iterator[MirrorRecord]:
    """The status of each version from `first` to `last`, in order."""
    for start in range(first, last + 1, _PAGE):
        upto = min(start + _PAGE - 1, last)
        yield from log.mirror_status(table_id, first=start, last=upto)
