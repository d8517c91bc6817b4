"""A backlog that takes too long is bridged: readers see the newest version, the rest follows."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import MirrorConflictError, MirrorError, VersionNotFoundError
from deltasql.mirror import leases
from deltasql.mirror.validation.sampling import sample
from deltasql.objectstore.local import LocalStore
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.mirror.conftest import SCHEMA, rows, statuses
from tests.readers.engines import DeltaRs, DuckDb, Polars

# More than a run mirrors before it looks how long the rest takes.
VERSIONS = 90
READERS = (DeltaRs, DuckDb, Polars)


def backlog(lake, versions: int = VERSIONS, **properties: str):
    table = lake.create_table("t", SCHEMA, properties=properties)
    for number in range(1, versions + 1):
        table.append(rows(number))
    return table


class Gate:
    """The object store before a table: commit files of versions in `closed` are refused."""

    def __init__(self, lake, table) -> None:
        self.closed: range = range(0)
        inner = lake.objects(table.location)
        self.store = FaultyStore(inner, self._fault)
        lake.objects.use(table.location, self.store)

    def _fault(self, call) -> Fault | None:
        version = version_of(call.path)
        return Fault.BEFORE if version in self.closed and call.verb.startswith("put") else None

    def puts(self) -> list[str]:
        """What was written to the log, in its order."""
        verbs = {"put_if_absent", "put_if_match", "open_output"}
        calls = [call for call in self.store.calls if call.verb in verbs and call.fault is None]
        return [call.path.removeprefix(LOG) for call in calls if call.path.startswith(LOG)]


def version_of(path: str) -> int | None:
    found = re.fullmatch(rf"{LOG}(\d{{20}})\.json", path)
    return int(found[1]) if found else None


def seen(table, version: int | None = None) -> set[tuple[int, ...]]:
    """The ids that other readers find, each of them."""
    root = Path(table.location.removeprefix("file://"))
    return {tuple(sorted(reader().rows(root, version)["id"].to_pylist())) for reader in READERS}


def ids(upto: int) -> set[tuple[int, ...]]:
    return {tuple(range(1, upto + 1))}


@pytest.fixture
def bridged(open_lake, log_of):
    """A table whose mirror has its newest version and lacks most below it."""

    def make(url: str | None = None, **properties: str):
        lake = open_lake(url, mode="async", lag_alert="1ms")
        table = backlog(lake, **properties)
        gate = Gate(lake, table)
        gate.closed = range(30, VERSIONS)
        lake.mirror.run(once=True)
        return lake, table, gate

    return make


def test_readers_see_the_newest_version_first(bridged, log_of, store_url):
    lake, table, gate = bridged(store_url)
    written = log_of(table).versions()
    assert written[-1] == VERSIONS
    assert len(written) < 40
    names = gate.puts()
    checkpoint = f"{VERSIONS:020}.checkpoint.parquet"
    # A commit file behind a gap would be an error to everybody.
    order = [names.index(name) for name in (checkpoint, commit_name(VERSIONS), "_last_checkpoint")]
    assert order == sorted(order)
    assert seen(table) == ids(VERSIONS)
    status = table.mirror.status()
    assert (status.mirrored_version, status.lag_versions, status.lag_seconds) == (VERSIONS, 0, 0)
    assert status.gap_versions == VERSIONS + 1 - len(written)
    assert [item.gap_versions for item in lake.mirror.status()] == [status.gap_versions]
    report = table.mirror.validate()
    assert (report.ok, report.version, report.lag_versions) == (True, VERSIONS, 0)
    assert sum(last - first + 1 for first, last in report.bridged) == status.gap_versions

    # What was there before can be read as of its version, what is missing can't, and says so.
    assert seen(table, 9) == ids(9)
    root = Path(table.location.removeprefix("file://"))
    for reader in READERS:
        with pytest.raises(Exception, match=r"[Vv]ersion|contiguous|gap"):
            reader().rows(root, VERSIONS - 9)
    with pytest.raises(VersionNotFoundError, match="still be pending"):
        table.mirror.validate(VERSIONS - 9)
    assert table.mirror.validate(9).ok
    assert "bridged" in (table.mirror.cleanup().reason or "")

    # New versions come before old ones, in their order.
    for number in (VERSIONS + 1, VERSIONS + 2):
        table.append(rows(number))
    lake.mirror.run(once=True)
    assert seen(table) == ids(VERSIONS + 2)
    assert table.mirror.status().mirrored_version == VERSIONS + 2

    gate.closed = range(0)
    lake.mirror.run(once=True)
    status = table.mirror.status()
    assert (status.gap_versions, status.lag_versions) == (0, 0)
    assert all(item.json_written for item in statuses(table).values())
    report = table.mirror.validate()
    assert (report.ok, report.bridged) == (True, [])
    assert seen(table, VERSIONS - 9) == ids(VERSIONS - 9)
    assert seen(table) == ids(VERSIONS + 2)


def test_a_writer_goes_on_after_a_bridge_and_fills_it(bridged, open_lake):
    lake, _, _ = bridged(**{"delta.checkpointPolicy": "v2"})
    lake.close()
    with open_lake(mode="sync", sync_timeout="30s") as writer:
        there = writer.table("t")
        there.append(rows(VERSIONS + 1))
        # Whoever waits for a version does not wait for what is missing below it.
        assert statuses(there)[VERSIONS + 1].json_written
        report = there.mirror.repair()
        assert report.ok
        assert there.mirror.status().gap_versions == 0
        assert there.mirror.validate().ok


def test_a_pause_ends_the_filling_in(bridged, open_lake, log_of):
    lake, table, gate = bridged()
    gate.closed = range(0)
    before = log_of(table).versions()
    table.mirror.pause()
    assert lake.engine.catch_up(table.target) == 0
    assert log_of(table).versions() == before
    assert table.mirror.repair().ok, "repair does"
    assert table.mirror.status().gap_versions == 0


def test_a_backlog_that_need_not_or_must_not_be_bridged_is_mirrored_in_order(open_lake):
    for name, settings in (
        ("a", {"lag_alert": "1h"}),
        ("b", {"lag_alert": "1ms", "bridge": "off"}),
        # Spark would read its changes across the gap as if nothing had happened there.
        ("fed", {"lag_alert": "1ms"}),
    ):
        lake = open_lake(mode="async", **settings)
        fed = {"delta.enableChangeDataFeed": str(name == "fed").lower()}
        table = lake.create_table(name, SCHEMA, properties=fed)
        for number in range(70):
            table.append(rows(number))
        gate = Gate(lake, table)
        lake.mirror.run(once=True)
        versions = [version_of(LOG + path) for path in gate.puts()]
        versions = [version for version in versions if version is not None]
        assert versions == list(range(71))


def test_nothing_goes_beside_a_foreign_commit_file(open_lake, log_of):
    lake = open_lake(mode="async", lag_alert="1ms")
    table = backlog(lake)
    log = log_of(table)
    log.folder.mkdir(parents=True, exist_ok=True)
    log[50].write_text('{"commitInfo":{}}\n')
    lake.mirror.run(once=True)
    assert not [name for name in log.names() if ".checkpoint" in name and int(name[:20]) > 50]
    assert max(version for version in log.versions() if version != 50) == 49
    assert table.mirror.status().is_failed


def die_at(url: str, location: str, name: str) -> None:
    """Mirror a lake, but be killed when an object of that name is about to be written."""
    leases.LEASE_SECONDS = 2.0

    def is_last(path):
        return re.fullmatch(name, path.removeprefix(LOG))

    def wrapped(real):
        def call(self, path, *args, **kwargs):
            if is_last(path):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, path, *args, **kwargs)

        return call

    put_many = LocalStore.put_many_if_absent

    def chain(self, items, beside=()):
        for place, item in enumerate(items):
            if is_last(item[0]):
                put_many(self, items[:place], beside[:place])
                os.kill(os.getpid(), signal.SIGKILL)
        return put_many(self, items, beside)

    LocalStore.put_many_if_absent = chain  # type: ignore[method-assign]
    for verb in ("put_if_match", "open_output"):
        setattr(LocalStore, verb, wrapped(getattr(LocalStore, verb)))
    settings = {"mirror.mode": "async", "mirror.lag_alert": "1ms"}
    with deltasql.connect(url, location=location, settings=settings) as lake:
        lake.mirror.run(once=True)


@pytest.mark.parametrize(
    "name",
    [
        rf"{VERSIONS:020}\.checkpoint\.parquet",
        rf"{VERSIONS:020}\.json",
        "_last_checkpoint",
        rf"{40:020}\.json",
    ],
)
def test_a_bridge_whose_builder_was_killed_is_finished(open_lake, sqlite_url, log_of, name):
    lake = open_lake(mode="async", lag_alert="1h")
    table = backlog(lake)
    context = multiprocessing.get_context("spawn")
    victim = context.Process(target=die_at, args=(sqlite_url, lake.location, name))
    victim.start()
    victim.join(120)
    assert victim.exitcode == -signal.SIGKILL
    began = log_of(table).names()
    assert len(log_of(table).versions()) < VERSIONS
    assert table.mirror.validate().ok
    # Also by one who would not have bridged it: nothing half-built stays.
    gate = Gate(lake, table)
    while table.mirror.status().gap_versions or table.mirror.status().lag_versions:
        lake.mirror.run(once=True)
    if any("checkpoint" in path for path in began):
        first = [path for path in gate.puts() if path.endswith(".json")][:1]
        assert first in ([commit_name(VERSIONS)], [f"{40:020}.json"]) or len(began) > 60
    assert log_of(table).versions() == list(range(VERSIONS + 1))
    assert table.mirror.validate().ok
    assert seen(table) == ids(VERSIONS)
    assert seen(table, 50) == ids(50)


def test_a_slow_bucket(seaweedfs, toxiproxy, tmp_path):
    """Whatever a real bucket does: all versions arrive, and the newest before most of them."""
    proxy = toxiproxy.proxy("bridge", seaweedfs.port)
    options = {**seaweedfs.options(), "mirror.mode": "async", "mirror.lag_alert": "1s"}
    options["s3.endpoint"] = f"http://127.0.0.1:{proxy.port}"
    place = seaweedfs.location(f"bridge/{os.getpid()}")
    with deltasql.connect(f"sqlite:///{tmp_path}/l.db", location=place, settings=options) as lake:
        table = backlog(lake)
        gate = Gate(lake, table)
        with proxy.toxic("latency", latency=20):
            lake.mirror.run(once=True)
        names = [name for name in gate.puts() if name.endswith(".json")]
        assert sorted(names) == [commit_name(version) for version in range(VERSIONS + 1)]
        assert names.index(commit_name(VERSIONS)) < 70
        assert table.mirror.validate().ok
        found = DeltaRs(lake.reader_options).rows(table.location, None)
        assert isinstance(found, pa.Table)
        assert found.num_rows == VERSIONS
    proxy.delete()


def test_a_mirror_that_is_ahead_across_a_gap_stops_commits(open_lake, sqlite_url, tmp_path):
    """After a failover or a restore: the version that readers know is not the one after SQL's."""
    path, old = Path(sqlite_url.removeprefix("sqlite:///")), tmp_path / "old.db"
    with open_lake(mode="async") as lake:
        backlog(lake, VERSIONS - 5)
    shutil.copy(path, old)
    lake = open_lake(mode="async", lag_alert="1ms")
    table = lake.table("t")
    for number in range(VERSIONS - 4, VERSIONS + 1):
        table.append(rows(number))
    gate = Gate(lake, table)
    gate.closed = range(30, VERSIONS)
    lake.mirror.run(once=True)
    assert seen(table) == ids(VERSIONS)
    lake.close()

    with open_lake(f"sqlite:///{old}", mode="async", lag_alert="1ms") as lake:
        table, log = lake.table("t"), gate.store.inner
        before = {item.path for item in log.list(LOG)}
        assert table.version == VERSIONS - 5
        for refused in (lambda: table.append(rows(1000)), lambda: table.vacuum(dry_run=False)):
            with pytest.raises(MirrorError, match=r"ahead of SQL|SQL does not know"):
                refused()
        with pytest.raises(MirrorError, match="SQL does not know"):
            lake.drop_table("t", purge=True)
        assert sample(lake.store, log, table.target).foreign_versions == [VERSIONS]
        assert table.mirror.repair().ahead == [VERSIONS]
        with pytest.raises(MirrorConflictError, match="missing there"):
            table.mirror.repair(take_back=True)
        assert table.version == VERSIONS - 5
        assert before <= {item.path for item in log.list(LOG)}
        # What readers have seen is not lost: the checkpoint has all of it.
        lake.drop_table("t")
        again = lake.adopt(table.location, name="t", unmirrored="discard")
        assert again.count() == VERSIONS


def test_a_bridge_that_another_history_began_is_not_finished(open_lake, sqlite_url, tmp_path):
    """Its checkpoint is there without its commit file, and SQL was restored and went on since."""
    path, old = Path(sqlite_url.removeprefix("sqlite:///")), tmp_path / "old.db"
    with open_lake(mode="async") as lake:
        table, place = backlog(lake, VERSIONS - 5), lake.location
    shutil.copy(path, old)
    with open_lake(mode="async") as lake:
        for number in range(VERSIONS - 4, VERSIONS + 1):
            lake.table("t").append(rows(number))
    context = multiprocessing.get_context("spawn")
    victim = context.Process(target=die_at, args=(sqlite_url, place, rf"{VERSIONS:020}\.json"))
    victim.start()
    victim.join(120)
    assert victim.exitcode == -signal.SIGKILL

    restored = f"sqlite:///{old}"
    with open_lake(restored, mode="off") as lake:
        for number in range(5):
            lake.table("t").append(rows(1000 + number))
    with open_lake(restored, mode="async") as lake:
        table = lake.table("t")
        lake.mirror.run(once=True)
        assert table.mirror.status().is_failed
        assert "differs from what SQL has" in table.mirror.status().error_message
        assert lake.objects(table.location).head(LOG + commit_name(VERSIONS)) is None
        table.mirror.repair()
        assert table.mirror.repair().ok
        assert table.mirror.validate().ok
        assert seen(table) == {(*range(1, VERSIONS - 4), *range(1000, 1005))}
