"""The history checker: what the database holds against what its writers were told.

Three questions, none of which counts anything: is each table's log whole and agrees with
itself; is every commit there that was acknowledged, once, as it was sent and in order, and
none that was refused; and did every commit that read something still hold true where it
ended up.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import deltasql
from deltasql.log.replay import Replay
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, CommitInfo, Metadata, Protocol, RemoveFile, Txn
from tests.stress.database import TableRows, Version, digest_of, read_tables
from tests.stress.journal import Intent, Told

SAMPLES = 6


class HistoryError(AssertionError):
    """The history is wrong; says how."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How much was checked."""

    versions: int
    acknowledged: int
    refused: int
    open_landed: int
    open_lost: int
    looks: int

    def __str__(self) -> str:
        return (
            f"{self.versions} versions, {self.acknowledged} acknowledged, {self.refused} refused, "
            f"unknown to their writer: {self.open_landed} there and {self.open_lost} not, "
            f"{self.looks} looks"
        )


def check(url: str, location: str, told: Told, *, seed: int = 0) -> Summary:
    """Raise `HistoryError` on the first thing that is wrong."""
    if told.failures:
        raise HistoryError(f"{len(told.failures)} writers failed:\n{told.failures[0]}")
    tables = read_tables(url)
    for table in tables.values():
        _log_is_whole(table)
        _files_are_accounted_for(table)
        _applications_are_in_order(table)
    placed = _place(tables, told)
    _acknowledged_are_there(tables, told, placed)
    _refused_are_not(told, placed)
    _open_are_whole_or_absent(told, placed)
    _transactions_are_whole(tables, told)
    _in_real_time_order(told, placed)
    for table in tables.values():
        _reads_still_hold(table, told)
    paths = {name: _paths_by_version(table) for name, table in tables.items()}
    _readers_saw_the_truth(told, paths)
    _cuts_are_consistent(tables, told)
    _snapshots_agree(url, location, tables, random.Random(seed))
    landed = [intent for intent in told.open if intent.tag in placed]
    return Summary(
        versions=sum(len(table.versions) for table in tables.values()),
        acknowledged=len(told.done),
        refused=len(told.refused),
        open_landed=len(landed),
        open_lost=len(told.open) - len(landed),
        looks=len(told.looks) + len(told.cuts),
    )


def _require(truth: object, problem: str) -> None:
    if not truth:
        raise HistoryError(problem)


# --- each log by itself -----------------------------------------------------------------


def _log_is_whole(table: TableRows) -> None:
    name, versions = table.name, table.versions
    numbers = [version.version for version in versions]
    _require(numbers == list(range(len(numbers))), f"{name}: gap or duplicate in {numbers}")
    last = -1
    for version in versions:
        where = f"{name} version {version.version}"
        _require(version.timestamp > last, f"{where}: time {version.timestamp} after {last}")
        last = version.timestamp
        _require(digest_of(version.body) == version.digest, f"{where}: digest is not the body's")
        _require(
            table.statuses.get(version.version) == ("PENDING", version.digest),
            f"{where}: mirror status is {table.statuses.get(version.version)}",
        )
        info = version.info
        _require(
            isinstance(version.actions[0], CommitInfo)
            and info.in_commit_timestamp == info.timestamp == version.timestamp,
            f"{where}: the body says another time",
        )
        _require(
            info.txn_id == (version.transaction or version.commit_id),
            f"{where}: the body says another transaction",
        )
    _require(len(table.statuses) == len(versions), f"{name}: a status without a version")
    ids = Counter(version.commit_id for version in versions)
    _require(max(ids.values()) == 1, f"{name}: a commit id twice")
    newest = {kind: _versions_with(versions, kind)[-1] for kind in (Metadata, Protocol)}
    expected = (numbers[-1], last, 0, newest[Metadata], newest[Protocol])
    _require(table.head == expected, f"{name}: head {table.head}, the log says {expected}")


def _versions_with(versions: Iterable[Version], kind: type) -> list[int]:
    return [v.version for v in versions if any(isinstance(a, kind) for a in v.actions)]


def _files_are_accounted_for(table: TableRows) -> None:
    """Rows of live and dead files are exactly what the bodies say."""
    live: dict[str, int] = {}
    dead: list[tuple[str, int, int]] = []
    seen: set[str] = set()
    replay = Replay()
    for version in table.versions:
        replay.apply(version.version, version.actions)
        where = f"{table.name} version {version.version}"
        for action in version.actions:
            if isinstance(action, RemoveFile):
                _require(action.path in live, f"{where}: removes {action.path}, which is not live")
                dead.append((action.path, live.pop(action.path), version.version))
            elif isinstance(action, AddFile):
                _require(action.path not in seen, f"{where}: adds {action.path} again")
                seen.add(action.path)
                live[action.path] = version.version
    _require({path for path, _ in replay.files} == live.keys(), f"{table.name}: replay disagrees")
    _same(table.live, list(live.items()), f"{table.name}: dl_active_files")
    _same(table.dead, dead, f"{table.name}: dl_dead_files")


def _same(found: Iterable[Any], expected: Iterable[Any], what: str) -> None:
    left, right = Counter(found), Counter(expected)
    if left != right:
        raise HistoryError(f"{what}: too many {left - right}, missing {right - left}")


def _applications_are_in_order(table: TableRows) -> None:
    said = [
        (version.version, action.app_id, action.version)
        for version in table.versions
        for action in version.actions
        if isinstance(action, Txn)
    ]
    _same(table.txns, said, f"{table.name}: dl_txn_actions")
    latest: dict[str, int] = {}
    for version, app_id, number in said:
        _require(
            number > latest.get(app_id, -1),
            f"{table.name} version {version}: {app_id} {number} after {latest.get(app_id)}",
        )
        latest[app_id] = number


# --- what the writers were told ---------------------------------------------------------

Placed = Mapping[str, Mapping[str, int]]


def _place(tables: Mapping[str, TableRows], told: Told) -> Placed:
    """Where each tag is: table → version. The committer's name carries the tag."""
    placed: dict[str, dict[str, int]] = defaultdict(dict)
    for name, table in tables.items():
        for version in table.versions[1:]:
            tag = str(version.committer)
            where = f"{name} version {version.version}"
            _require(tag in told.intents, f"{where}: nobody sent {tag}")
            _require(name not in placed[tag], f"{where}: {tag} is there already")
            placed[tag][name] = version.version
            _is_as_sent(where, version, told.intents[tag], name)
    return dict(placed)


def _is_as_sent(where: str, version: Version, intent: Intent, name: str) -> None:
    _require(name in intent.tables, f"{where}: {intent.tag} was not for this table")
    _require(version.transaction == intent.transaction, f"{where}: another transaction id")
    sent = intent.tables[name]
    if sent is None:
        return
    _same(
        map(_comparable, map(codec.to_wire, version.actions)),
        [_comparable(action) for action in sent] + [b"commitInfo"],
        f"{where}: actions",
    )


def _comparable(wire: Mapping[str, Any]) -> bytes:
    ((kind, fields),) = wire.items()
    if kind == "commitInfo":
        return b"commitInfo"
    # The facade sets the time of a txn itself.
    return codec.dumps({kind: {k: v for k, v in fields.items() if k != "lastUpdated"}})


def _acknowledged_are_there(tables: Mapping[str, TableRows], told: Told, placed: Placed) -> None:
    for intent in told.done:
        assert intent.versions is not None
        found = placed.get(intent.tag, {})
        if intent.app is not None and not found:
            # Skipped as seen before: then the answer names the version that holds it.
            for name, version in intent.versions.items():
                _require(
                    (version, *intent.app) in tables[name].txns,
                    f"{name} version {version} does not hold {intent.app}",
                )
            continue
        _require(
            dict(found) == dict(intent.versions),
            f"{intent.kind} {intent.tag} was acknowledged as {intent.versions}, is at {found}",
        )


def _refused_are_not(told: Told, placed: Placed) -> None:
    for intent in told.refused:
        _require(
            intent.tag not in placed,
            f"{intent.kind} {intent.tag} is at {placed.get(intent.tag)}, though its writer got "
            f"{intent.refused}",
        )


def _open_are_whole_or_absent(told: Told, placed: Placed) -> None:
    for intent in told.open:
        found = placed.get(intent.tag, {})
        _require(
            not found or found.keys() == intent.tables.keys(),
            f"{intent.kind} {intent.tag} is in {set(found)} of {set(intent.tables)}",
        )


def _transactions_are_whole(tables: Mapping[str, TableRows], told: Told) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for name, table in tables.items():
        for version in table.versions:
            if version.transaction is not None:
                found[version.transaction].add(name)
    meant = {intent.transaction: set(intent.tables) for intent in told.intents.values()}
    for transaction, names in found.items():
        _require(
            names == meant[transaction],
            f"transaction {transaction} is in {names} of {meant[transaction]}",
        )


def _in_real_time_order(told: Told, placed: Placed) -> None:
    """Who was acknowledged before another began has the lower version, table by table."""
    by_table: dict[str, list[tuple[int, Intent]]] = defaultdict(list)
    for tag, versions in placed.items():
        for name, version in versions.items():
            by_table[name].append((version, told.intents[tag]))
    for name, found in by_table.items():
        found.sort(key=lambda item: -item[0])
        earliest_end, ender = None, None
        for version, intent in found:
            if earliest_end is not None and earliest_end < intent.began:
                raise HistoryError(
                    f"{name}: {ender} was acknowledged before version {version} began"
                )
            if intent.ended is not None and (earliest_end is None or intent.ended < earliest_end):
                earliest_end, ender = intent.ended, f"version {version}"


# --- whether what was read still held ---------------------------------------------------


def _reads_still_hold(table: TableRows, told: Told) -> None:
    """Delta's rules in the words of this workload, independent of the library's own."""
    metadata = _versions_with(table.versions, Metadata)
    for version in table.versions[1:]:
        intent = told.intents[str(version.committer)]
        base = version.info.read_version
        if base is None:
            continue
        where = f"{table.name} version {version.version} ({intent.kind}, read {base})"
        newest = metadata[bisect_left(metadata, version.version) - 1]
        _require(newest <= base, f"{where}: version {newest} changed the metadata")
        partition = intent.partitions.get(table.name)
        if partition is None:
            continue
        for winner in table.versions[base + 1 : version.version]:
            blind = winner.is_blind
            for action in winner.actions:
                if isinstance(action, RemoveFile) or (isinstance(action, AddFile) and not blind):
                    values = action.partition_values or {}
                    _require(
                        values.get("p") != str(partition),
                        f"{where}: version {winner.version} changed the partition it read",
                    )


# --- what readers saw -------------------------------------------------------------------


def paths_digest(paths: Iterable[str]) -> str:
    """A name for a set of paths."""
    return sha256("\n".join(sorted(paths)).encode()).hexdigest()


def _paths_by_version(table: TableRows) -> list[frozenset[str]]:
    found = []
    live: set[str] = set()
    for version in table.versions:
        removed = {a.path for a in version.actions if isinstance(a, RemoveFile)}
        live = (live - removed) | {a.path for a in version.actions if isinstance(a, AddFile)}
        found.append(frozenset(live))
    return found


def _readers_saw_the_truth(told: Told, paths: Mapping[str, list[frozenset[str]]]) -> None:
    for look in told.looks:
        _require(
            paths_digest(paths[look.table][look.version]) == look.paths,
            f"a reader saw other files in {look.table} version {look.version}",
        )


def _cuts_are_consistent(tables: Mapping[str, TableRows], told: Told) -> None:
    versions: dict[str, dict[str, int]] = defaultdict(dict)
    for name, table in tables.items():
        for version in table.versions:
            if version.transaction is not None:
                versions[version.transaction][name] = version.version
    for cut in told.cuts:
        for transaction, places in versions.items():
            seen = {places[name] <= cut.versions[name] for name in places if name in cut.versions}
            _require(len(seen) < 2, f"the cut {cut.versions} halves transaction {transaction}")


def _snapshots_agree(
    url: str, location: str, tables: Mapping[str, TableRows], rng: random.Random
) -> None:
    """The library's own snapshots against a replay, at the head and at some versions before."""
    with deltasql.connect(url, location=location) as lake:
        for name, rows in tables.items():
            table = lake.table(name)
            newest = len(rows.versions) - 1
            wanted = {0, newest, *rng.sample(range(newest + 1), min(SAMPLES, newest + 1))}
            replay = Replay()
            for version in rows.versions:
                replay.apply(version.version, version.actions)
                if version.version in wanted:
                    _snapshot_agrees(table, replay)
            _files_exist(table, replay)


def _snapshot_agrees(table: deltasql.Table, replay: Replay) -> None:
    snapshot = table.snapshot(version=replay.version)
    where = f"{table.name} version {replay.version}: the snapshot's"
    found = snapshot.files()
    columns = ("path", "size", "modification_time", "stats")
    _same(
        zip(*(found.column(name).to_pylist() for name in columns), strict=True),
        ((a.path, a.size, a.modification_time, a.stats) for a in replay.files.values()),
        f"{where} files",
    )
    _require(snapshot.metadata == replay.metadata, f"{where} metadata")
    _require(snapshot.protocol == replay.protocol, f"{where} protocol")
    txns = {app_id: txn.version for app_id, txn in replay.txns.items()}
    _require(snapshot.txns == txns, f"{where} txns {snapshot.txns}, replay says {txns}")


def _files_exist(table: deltasql.Table, replay: Replay) -> None:
    """Files that the library wrote itself, and that are live, are on the disk."""
    root = Path(unquote(urlsplit(table.location).path))
    for add in replay.files.values():
        if add.path.endswith(".parquet"):
            path = root / unquote(add.path)
            _require(path.exists(), f"{table.name}: {add.path} is live, and its file is gone")
