"""Whether a history is serial: each version is what its operation makes of the version before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow.compute as pc

import deltasql
from deltasql.spec.actions import CommitInfo
from tests.histories.model import Append, Operation, Restore, Row, Rows, Several
from tests.histories.writers import TAG, Told, rows_in

# They move rows or change what is not a row.
_STILL = {
    "OPTIMIZE", "ADD COLUMNS", "CHANGE TABLE", "SET TBLPROPERTIES", "CHANGE COLUMN", "REORG",
    "UNSET TBLPROPERTIES",
}  # fmt: skip


def judge(  # noqa: C901 - one version after the other
    lake: deltasql.Lake,
    name: str,
    told: Sequence[Told],
    *,
    seen: Iterable[tuple[str, int, Rows]] = (),
    serializable: bool,
) -> int:
    """Check every version of a table; returns how many commits overtook what they had read."""
    table = lake.table(name)
    changes = table.changes(0)
    states: list[Rows] = []
    asked = {item.name: item for item in told}
    found: Counter[str] = Counter()
    blind: list[Rows] = []
    overtaken = 0
    for change in changes:
        version = change.version
        snapshot = table.snapshot(version)
        now = rows_in(snapshot.scan().to_arrow())
        assert snapshot.count() == now.total(), f"count of version {version}"
        if now:
            ids = [row.id for row in now]
            assert snapshot.min_max("id") == (min(ids), max(ids)), f"ends of version {version}"
        states.append(now)
        blind.append(Counter())
        if version == 0:
            continue
        (info,) = (item for item in change.actions if isinstance(item, CommitInfo))
        before, tag = states[version - 1], info.extra.get(TAG)
        if tag is None:
            assert info.operation in _STILL, f"version {version}: {info.operation}"
            assert now == before, f"version {version} ({info.operation}) {_delta(before, now)}"
            continue
        found[tag] += 1
        item = asked[tag]
        assert item.outcome != "refused", f"{name} version {version}: {item} was told refused"
        if item.outcome == "done":
            assert item.versions[name] == version, f"{item} is version {version}"
        op = item.asked[name]
        read = version - 1 if info.read_version is None else info.read_version
        unseen: Rows = Counter()
        if not serializable:
            unseen = sum(blind[read + 1 : version], Counter()) & before
        overtaken += read < version - 1 and not info.is_blind_append
        if info.is_blind_append:
            assert isinstance(op, Append) or _appends(op), item
            blind[version] = now - before
        expected = _after(op, before - unseen, states) + unseen
        assert now == expected, (
            f"{name} version {version}, {info.operation} which read {read}: {op}\n"
            f"is {_delta(expected, now)}\nbefore {sorted(before, key=repr)}\nunseen {unseen}"
        )
    for item in told:
        if name in item.asked and item.outcome == "done" and found[item.name] == 0:
            # Nothing to do, or done before.
            op = item.asked[name]
            _must_have_done_nothing(item, name, op, states)
        assert found[item.name] <= 1, f"{item} is there {found[item.name]} times"
    for other, version, rows in seen:
        if other == name:
            assert rows == states[version], f"version {version} was once {rows}"
    return overtaken


def judge_feed(table: deltasql.Table) -> None:
    """The change feed of each version is the difference between it and the one before."""
    for version in range(1, table.version + 1):
        before, now = table.snapshot(version - 1), table.snapshot(version)
        if not (before.state.has_change_feed and now.state.has_change_feed):
            continue
        left = rows_in(before.scan().to_arrow())
        feed = table.change_rows(version, version).read_all()
        for kind in ("insert", "update_postimage", "delete", "update_preimage"):
            rows = rows_in(feed.filter(pc.equal(feed.column("_change_type"), kind)))
            for row, n in rows.items():
                left[row] += n if kind in ("insert", "update_postimage") else -n
        found = Counter({row: n for row, n in left.items() if n})
        assert found == rows_in(now.scan().to_arrow()), f"the feed of version {version}"


def _must_have_done_nothing(item: Told, name: str, op: Operation, states: list[Rows]) -> None:
    if isinstance(op, Append):
        raise AssertionError(f"{item} was told done and is not there")
    if name in item.versions and not isinstance(op, Several | Restore):
        at = item.versions[name]
        assert op.after(states[at]) == states[at], f"{item} had something to do at {at}"


def _appends(op: Operation) -> bool:
    return isinstance(op, Several) and all(isinstance(step, Append) for step in op.steps)


def _after(op: Operation, rows: Rows, states: list[Rows]) -> Rows:
    return states[op.version] if isinstance(op, Restore) else op.after(rows)


def _delta(expected: Counter[Row], now: Counter[Row]) -> str:
    lost, new = (sorted(rows.elements(), key=repr) for rows in (expected - now, now - expected))
    return f"lost {lost}, too many {new}"
