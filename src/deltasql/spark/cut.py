"""One consistent cut of all tables: every head from one statement, then each table is pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from deltasql.errors import TableNotFoundError

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table


class Cut:
    """Whether the reads of this thread are pinned, and where."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._pinned: ContextVar[Mapping[int, int] | None] = ContextVar(
            "deltasql_cut", default=None
        )
        # By table: what protects the version from vacuum, once it was read.
        self._held: ContextVar[tuple[ExitStack, set[int]] | None] = ContextVar(
            "deltasql_held", default=None
        )

    @contextmanager
    def taken(self) -> Iterator[Mapping[int, int]]:
        """Pin every table at its current version; a cut inside a cut keeps the outer one."""
        outer = self._pinned.get()
        if outer is not None:
            yield outer
            return
        heads = self._lake.store.heads()
        versions = {head.table_id: head.version for head in heads.values()}
        token = self._pinned.set(versions)
        with ExitStack() as stack:
            held = self._held.set((stack, set()))
            try:
                yield versions
            finally:
                self._held.reset(held)
                self._pinned.reset(token)

    def version_of(self, table: Table) -> int | None:
        """The version that the table is pinned at; None outside a cut."""
        pinned = self._pinned.get()
        if pinned is None:
            return None
        if table.table_id not in pinned:
            raise TableNotFoundError(
                f"there is no table {table.name} in this snapshot",
                cause="it was created after the snapshot was taken",
                remedy="read it outside of the block, or take a new snapshot",
            )
        version = pinned[table.table_id]
        held = self._held.get()
        if held is not None and table.table_id not in held[1]:
            # At once: a block may be short, and its second read finds the first one's version.
            held[0].enter_context(
                self._lake.presence.held(table.table_id, version, "db.snapshot()")
            )
            held[1].add(table.table_id)
        return version
