"""What goes into the mirror with each version: its sums, its checksum file, and whether a
checkpoint is due, each derived from the version before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deltasql.delta_log.checkpoint.v2 import uses_v2
from deltasql.delta_log.checksum import actions_in, added_by, render_checksum
from deltasql.delta_log.names import LOG, crc_name
from deltasql.errors import DamagedLogError
from deltasql.log.checkpoint_rule import Growth, grown, is_due, is_tail_due
from deltasql.log.retention import checkpoint_interval
from deltasql.log.state import TableState
from deltasql.mirror.property_faults import warn_of_faults
from deltasql.objectstore import Item
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import NO_INTERVAL, Lease, PendingVersion, Totals


@dataclass(frozen=True, slots=True)
class Step:
    """A version to be mirrored: its sums, its checksum file, and whether a checkpoint is due with
    it, by the table's interval or by how much the log has grown since the last.
    """

    totals: Totals
    checksum: bytes
    is_due: bool
    interval: int
    growth: Growth


class Track:
    """Consecutive versions of a table, as far as they have come; `totals` are the newest's."""

    def __init__(
        self,
        log: LogStore,
        lease: Lease,
        *,
        default_interval: int,
        checkpoint_rate: int,
        totals: Totals | None,
        growth: Growth | None,
    ) -> None:
        self._log = log
        self._lease = lease
        self._default_interval = default_interval
        self._checkpoint_rate = checkpoint_rate
        self._state: TableState | None = None
        self.totals = totals
        self.growth = growth

    def branch(self) -> Track:
        """A second track that continues from here."""
        return self._track(self.totals, self.growth)

    def anew(self) -> Track:
        """A second track, for versions about which nothing is known."""
        return self._track(None, None)

    def _track(self, totals: Totals | None, growth: Growth | None) -> Track:
        return Track(
            self._log,
            self._lease,
            default_interval=self._default_interval,
            checkpoint_rate=self._checkpoint_rate,
            totals=totals,
            growth=growth,
        )

    def steps(self, part: Sequence[PendingVersion]) -> list[Step]:
        """What goes with each version: `V.crc`, optional and exact, derived from the one before."""
        totals, growth = self.totals, self.growth
        if totals is None or totals.version != part[0].version - 1:
            totals = self._totals_before(part[0].version)
        steps = []
        for item in part:
            assert item.body is not None, "it is sound"
            added = added_by(item.body, source=f"version {item.version}")
            state = self._advance(item, is_change=added.is_change)
            totals = Totals(
                item.version,
                totals.files + added.files - item.gone_files,
                totals.size_bytes + added.size_bytes - item.gone_bytes,
            )
            grown_by = actions_in(item.body)
            is_due, interval, growth = self._due(
                growth, totals, state, grown_by, is_newest=item is part[-1]
            )
            checksum = render_checksum(state, totals)
            steps.append(Step(totals, checksum, is_due, interval, growth))
        return steps

    def keep(self, steps: Sequence[Step]) -> None:
        """Note that these are in the mirror."""
        if steps:
            self.totals = steps[-1].totals
            self.growth = steps[-1].growth

    def _due(
        self,
        growth: Growth | None,
        totals: Totals,
        state: TableState,
        actions: int,
        *,
        is_newest: bool,
    ) -> tuple[bool, int, Growth]:
        """Whether a checkpoint is due with a version, the table's interval, and the growth."""
        version, own = totals.version, checkpoint_interval(state.properties)
        interval = self._default_interval if own is None else own
        if growth is None:
            growth = Growth.unknown(version, interval, totals.files)
        growth = grown(growth, version, actions)
        if own is not None:
            due = version > 0 and version % own == 0
        else:
            due = is_due(
                growth,
                version,
                interval=interval,
                rate=self._checkpoint_rate,
                table_actions=max(totals.files, self._lease.checkpoint_actions),
            ) or (is_newest and uses_v2(state) and self._is_tail_due(growth, totals, interval))
        is_newer = version > growth.due_version
        after = Growth(version, 0) if due and is_newer else growth
        return due, NO_INTERVAL if own is None else own, after

    def _is_tail_due(self, growth: Growth, totals: Totals, interval: int) -> bool:
        """Whether a V2 checkpoint pays that keeps the sidecars of the last one."""
        version, size = totals.version, self._lease.checkpoint_actions
        pays = is_tail_due(
            growth,
            version,
            interval=interval,
            rate=self._checkpoint_rate,
            # What the newest checkpoint had beside the files that are still live.
            repeated=max(0, size - (totals.files - growth.actions)),
            table_actions=max(totals.files, size),
        )
        # Asked last: the answer is in the database.
        return pays and not self._log.has_lost_files(
            self._lease.table_id, growth.due_version, version
        )

    def _totals_before(self, version: int) -> Totals:
        if version == 0:
            return Totals(-1, 0, 0)
        return self._log.totals(self._lease.table_id, version - 1)

    def _advance(self, item: PendingVersion, *, is_change: bool) -> TableState:
        """The state at a version, from the one before it unless the version changes it."""
        assert item.in_commit_timestamp is not None
        if self._state is None or self._state.version != item.version - 1 or is_change:
            record = self._log.state(self._lease.table_id, item.version)
            if record is None:
                raise DamagedLogError(
                    f"version {item.version} can't be mirrored",
                    cause="its metadata and protocol are not in SQL: its table was purged "
                    "while it was read, or somebody changed the rows",
                    remedy="lake.check() shows what is damaged",
                    version=item.version,
                )
            self._state = record.parsed()
            warn_of_faults(self._log, self._lease.table_id, self._state.properties)
        else:
            self._state = replace(
                self._state,
                version=item.version,
                in_commit_timestamp=item.in_commit_timestamp,
            )
        return self._state


def upto_due(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Stretches of versions with the same interval; without one, each ends with a checkpoint."""
    first = 0
    for place, step in enumerate(steps, start=1):
        is_last = place == len(steps) or steps[place].interval != step.interval
        if is_last or (step.is_due and step.interval == NO_INTERVAL):
            yield steps[first:place]
            first = place


def checksums(steps: Sequence[Step]) -> list[Item]:
    """The checksum files of versions."""
    return [(LOG + crc_name(step.totals.version), step.checksum) for step in steps]


def runs(pending: Sequence[PendingVersion]) -> list[list[PendingVersion]]:
    """Stretches of consecutive versions: the mirror already has what lies between them."""
    found: list[list[PendingVersion]] = []
    for item in pending:
        if found and found[-1][-1].version + 1 == item.version:
            found[-1].append(item)
        else:
            found.append([item])
    return found
