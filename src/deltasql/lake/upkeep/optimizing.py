"""Optimize as users see it: `table.optimize`, `table.reorg`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, cast

from deltasql.commit import CommitRequest
from deltasql.commit.discarding import Abandon
from deltasql.data.rewriting import must_be_rewritable
from deltasql.errors import (
    CommitStateUnknownError,
    DeltaSqlError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.lake import writing
from deltasql.lake.dml.words import names_of
from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import is_partition_only
from deltasql.log.removal import removes, rewritten
from deltasql.log.state import TableState
from deltasql.maintenance.optimizing.planning import DEAD_SHARE, DEFAULT_TARGET, Wish, plan
from deltasql.maintenance.optimizing.report import OptimizeReport
from deltasql.maintenance.optimizing.run import Move, Run
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile
from deltasql.spec.properties import CLUSTERING_DOMAIN, TARGET_FILE_SIZE
from deltasql.spec.schema import ArrayType, MapType, StructType
from deltasql.store.interface import LockedLog
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from deltasql.lake.table import Table

__all__ = ["OptimizeReport", "TableOptimize"]

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"\s*(\d+)\s*([bkmgt]?)i?b?\s*", re.IGNORECASE | re.ASCII)


class TableOptimize:
    """What a table does about small files and deleted rows."""

    __slots__ = ()

    def optimize(
        self,
        where: str | None = None,
        target_size: int | str | None = None,
        zorder_by: Sequence[str] | str = (),
        *,
        purge: bool = False,
        dead_share: float = DEAD_SHARE,
        progress: Callable[[int, int], None] | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> OptimizeReport:
        """Combine small files, and those with many deleted rows, into larger ones; no row changes.

        `where` chooses partitions. `target_size` is in bytes, or a text such as `256 MB`; by
        default `delta.targetFileSize`, or 128 MiB. `zorder_by` orders the rows of all files by
        several columns; a clustered table is ordered by its own. With `purge` every file with
        deleted rows is rewritten, and nothing else. Several processes that ask for the same share
        the work: each bin is one commit, which never disturbs an append. `progress` is called with
        how many bins are done, and how many were planned. `commit_metadata` goes into each commit.
        """
        table = cast("Table", self)
        state = table._lake.states.refresh(table.table_id)
        if where is not None and not is_partition_only(
            bind(parse(where), state.schema), state.partition_columns
        ):
            raise ValidationError(
                f"optimize can't choose files by {where!r}",
                cause="the condition names columns that don't partition the table",
                remedy="choose by partition columns alone",
            )
        wish = Wish(
            where=where,
            target_size=_target(target_size, state.properties),
            zorder_by=_columns(names_of(zorder_by), state),
            cluster_by=_clustering(table, state),
            purge=purge,
            dead_share=dead_share,
        )
        if wish.zorder_by and wish.cluster_by:
            raise ValidationError(
                "zorder_by can't be given for a clustered table",
                cause=f"its rows are in the order of {', '.join(wish.cluster_by)}",
                remedy="leave it out, or change the clustering columns",
            )
        if wish.zorder_by and purge:
            raise ValidationError("purge and zorder_by exclude each other", remedy="give one")
        with tracing.span("optimize", table=table.name), table._lake.presence.writing():
            return Run(
                _Optimized(table, wish, commit_metadata), table._lake.store, wish, progress
            ).run()

    def reorg(
        self, where: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> OptimizeReport:
        """Rewrite every file with deleted rows without them: stock Delta's REORG … PURGE."""
        return self.optimize(where, purge=True, progress=progress)


def files_to_optimize(table: Table) -> int:
    """How many files `Table.optimize` would combine; 0 if it can't."""
    snapshot = table.base()
    state = snapshot.state
    try:
        must_be_rewritable(state)
    except UnsupportedFeatureError:
        return 0
    wish = Wish(target_size=_target(None, state.properties), cluster_by=_clustering(table, state))
    return sum(len(item.files) for item in plan(snapshot.adds(), wish))


class _Optimized:
    """A table as a run of optimize uses it."""

    def __init__(self, table: Table, wish: Wish, told: Mapping[str, Any] | None = None) -> None:
        self._told = told
        self._table = table
        self._wish = wish

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def table_id(self) -> int:
        return self._table.table_id

    @property
    def objects(self) -> ObjectStore:
        return self._table.objects

    def state(self) -> TableState:
        return self._table._lake.states.refresh(self.table_id)

    def files(self, state: TableState, where: str | None) -> Iterator[AddFile]:
        snapshot = self._table.base(state.version)
        return snapshot.adds(snapshot.bind(where))

    def held(self, version: int) -> AbstractContextManager[None]:
        return self._table._lake.presence.reading(self.table_id, version, "optimize")

    def abandon(self, after: int) -> Abandon:
        return self._table.abandon(after)

    def new_id(self) -> str:
        return writing.new_id()

    def now_ms(self) -> int:
        return writing.now_ms()

    def commit(self, move: Move) -> int:
        table, wish = self._table, self._wish
        gone = removes(
            rewritten(move.removed), deletion_timestamp=writing.now_ms(), data_change=False
        )
        actions: list[Action] = [
            *writing.commit_info(move.metrics, self._told), *gone, *move.added,
        ]  # fmt: skip
        request = table.request(
            actions,
            operation="REORG" if wish.purge else "OPTIMIZE",
            operation_params=_params(wish),
            read_version=move.read_version,
        )

        def beside(log: LockedLog) -> None:
            if move.row_order is not None:
                store.write_sorted_rows(log, table.table_id, move.row_counts, move.row_order)
            elif not move.is_sorted:
                store.write_moved_rows(log, table.table_id, move.row_counts)

        store = table._lake.store
        try:
            done = table.send(request, inside=beside)
        except CommitStateUnknownError:
            raise
        except DeltaSqlError:
            self._discard(move, request)
            raise
        table.mirror_commit(request, done)
        return done.version

    def _discard(self, move: Move, request: CommitRequest) -> None:
        self._table._lake.discarder.discard(
            self._table.location,
            [add.path for add in move.added],
            after=move.read_version,
            table_id=self.table_id,
            request=request,
        )


def _params(wish: Wish) -> Mapping[str, Any]:
    """The operationParameters of stock Delta's OPTIMIZE and REORG."""
    predicate = {"predicate": [] if wish.where is None else [wish.where]}
    if wish.purge:
        return {**predicate, "applyPurge": True}
    clustered = {"isFull": False} if wish.cluster_by else {}
    return {
        **predicate,
        "zOrderBy": list(wish.zorder_by),
        "clusterBy": list(wish.cluster_by),
        "auto": False,
        **clustered,
    }


def _target(given: int | str | None, properties: Mapping[str, str]) -> int:
    if given is None:
        found = _bytes(properties.get(TARGET_FILE_SIZE, ""))
        return DEFAULT_TARGET if found is None else found
    size = given if isinstance(given, int) else _bytes(given)
    if size is None or size < 1:
        raise ValidationError(
            f"target_size can't be {given!r}", remedy='give bytes, or a text such as "256 MB"'
        )
    return size


def _bytes(text: str) -> int | None:
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else None


def _columns(given: Sequence[str], state: TableState) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    partition = {name.lower() for name in state.partition_columns}
    found = []
    for name in names:
        item = state.schema.field(name)
        if item is None or isinstance(item.type, StructType | ArrayType | MapType):
            raise ValidationError(
                f"rows can't be ordered by {name!r}",
                cause="the table has no such column, or it is not a scalar",
                remedy="name scalar columns of the table",
            )
        if item.name.lower() in partition:
            raise ValidationError(
                f"rows can't be ordered by {name!r}",
                cause="it partitions the table: it is the same in all rows of a file",
                remedy="name other columns",
            )
        found.append(item.name)
    return tuple(dict.fromkeys(found))


def _clustering(table: Table, state: TableState) -> tuple[str, ...]:
    """The clustering columns, by their logical names, without those nested in others."""
    if "clustering" not in state.writer_features:
        return ()
    text = table._lake.store.domains(table.table_id, state.version).get(CLUSTERING_DOMAIN)
    if text is None:
        return ()
    paths = codec.loads(text, source=CLUSTERING_DOMAIN).get("clusteringColumns", [])
    names = {item.physical_name: item.name for item in state.schema.fields}
    return tuple(names[path[0]] for path in paths if len(path) == 1 and path[0] in names)
