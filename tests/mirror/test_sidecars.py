"""V2 checkpoints name the sidecars of earlier ones again, as far as their files are still live."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from typing import Any

import deltasql
from deltasql.delta_log.listing import list_log
from deltasql.delta_log.names import LOG
from deltasql.delta_log.reading import sidecars_of
from deltasql.mirror import leases
from deltasql.objectstore.local import LocalStore
from tests.mirror.conftest import rows
from tests.readers.engines import DeltaRs, DuckDb, files_of, place

V2 = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "8"}


def sidecars(table: Any) -> dict[int, set[str]]:
    """The sidecars of each checkpoint."""
    return {
        version: {name for item in found for top in item.names for name in _named(table, top)}
        for version, found in list_log(table.objects).checkpoints.items()
    }


def _named(table: Any, top: str) -> list[str]:
    return sidecars_of(table.objects, top)


def must_agree(table: Any) -> None:
    """SQL, the validator, a check of everything, and readers; Polars refuses the feature."""
    report = table.mirror.validate()
    assert report.ok, report
    assert report.reader_error is None
    assert table._lake.check(table.name, full=True).ok
    root, expected = place(table), files_of(table.snapshot().adds())
    assert DeltaRs().files(root, None) == expected
    assert DuckDb().files(root, None) == expected


def append(table: Any, count: int) -> None:
    for _ in range(count):
        table.append(rows(table.version))


def test_old_files_are_written_once(any_lake, make_table):
    table = make_table(any_lake, 24, **V2)
    any_lake.mirror.run(once=True)
    before = sidecars(table)
    assert sorted(before) == [8, 16, 24]
    append(table, 8)
    any_lake.mirror.run(once=True)
    after = sidecars(table)
    assert len(after[32]) > 1
    assert after[32] & before[24], "the files of the first versions have not changed"
    assert after[32] - before[24], "the new ones are in none of them"
    must_agree(table)
    append(table, 8)
    any_lake.mirror.run(once=True)
    must_agree(table)


def test_a_removed_file_changes_its_sidecar_alone(lake, make_table):
    table = make_table(lake, 24, **V2)
    append(table, 4)
    before = sidecars(table)[24]
    assert len(before) == 1
    append(table, 4)
    lake.mirror.run(once=True)
    old = sidecars(table)[32]
    assert len(old) == 2
    table.delete("id = 30")  # one of the new ones
    append(table, 1)
    table.set_properties({"delta.checkpointInterval": "35"})
    lake.mirror.run(once=True)
    assert before < sidecars(table)[35]
    assert not (old - before) & sidecars(table)[35]
    must_agree(table)
    table.delete("id = 3")
    table.set_properties({"delta.checkpointInterval": "37"})
    lake.mirror.run(once=True)
    assert not before & sidecars(table)[37]
    must_agree(table)


def test_other_columns_are_written_anew(lake, make_table):
    table = make_table(lake, 8, **V2)
    before = sidecars(table)[8]
    table.set_properties({"delta.checkpoint.writeStatsAsStruct": "true"})
    append(table, 7)
    lake.mirror.run(once=True)
    assert not before & sidecars(table)[16]
    must_agree(table)


def die_at(url: str, location: str, name: str) -> None:
    """Mirror a lake, but be killed when an object of that name is about to be written."""
    leases.LEASE_SECONDS = 2.0
    real = LocalStore.open_output

    def output(self: LocalStore, path: str) -> Any:
        if re.fullmatch(name, path.removeprefix(LOG)):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, path)

    LocalStore.open_output = output  # type: ignore[method-assign]
    with deltasql.connect(url, location=location, settings={"mirror.mode": "async"}) as lake:
        lake.mirror.run(once=True)


def test_a_writer_killed_before_the_top_file(open_lake, sqlite_url, make_table):
    lake = open_lake(mode="async")
    table = make_table(lake, 24, **V2)
    before = sidecars(table)
    append(table, 8)
    context = multiprocessing.get_context("spawn")
    name = r"0{18}32\.checkpoint\..*\.parquet"
    victim = context.Process(target=die_at, args=(sqlite_url, lake.location, name))
    victim.start()
    victim.join(120)
    assert victim.exitcode == -signal.SIGKILL
    # A sidecar that nothing names is there, and readers don't see it.
    lost = {path.name for path in (place(table) / "_delta_log/_sidecars").iterdir()}
    assert sidecars(table) == before
    assert len(lost) > len(set().union(*before.values()))
    must_agree(table)
    deadline = time.monotonic() + 60
    while 32 not in sidecars(table) and time.monotonic() < deadline:
        lake.mirror.run(once=True)
        time.sleep(0.2)
    assert sidecars(table)[32] & before[24]
    must_agree(table)
