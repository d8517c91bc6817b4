"""Restore: the table as it was, as a new commit, or nothing."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import CommitError, ValidationError, VersionNotFoundError
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import AT_ONCE, SCHEMA, churned, files, folder, ids, live, rows


def test_the_table_is_what_it_was(any_lake: deltasql.Lake):
    lake = any_lake
    table = churned(lake)
    table.append(rows(9))
    report = table.restore(version=1)
    assert (report.version, report.restored_version) == (5, 1)
    assert report.metrics["numRestoredFiles"] == 1
    assert report.metrics["numRemovedFiles"] == 2
    assert report.metrics["numOfFilesAfterRestore"] == 1
    assert report.metrics["tableSizeAfterRestore"] == report.metrics["restoredFilesSize"] > 0
    assert [row["id"] for row in seen_by_all(lake, table)] == [0]
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_params) == (
        "RESTORE", {"version": "1", "timestamp": None},
    )  # fmt: skip
    (info, *_) = (item for item in table.changes(5)[0].actions if hasattr(item, "operation"))
    assert info.extra["operationMetrics"]["numRestoredFiles"] == "1"
    assert ids(table.snapshot(version=4).scan().to_arrow()) == [2, 9], "the history stays"
    assert lake.check().ok


def test_to_a_time(lake: deltasql.Lake):
    table = churned(lake)
    when = table.snapshot(version=2).timestamp
    report = table.restore(timestamp=when)
    assert (report.restored_version, ids(table.scan().to_arrow())) == (2, [1])
    with pytest.raises(ValidationError, match="needs a version or a timestamp"):
        table.restore()
    with pytest.raises(ValidationError, match="yet to come"):
        table.restore(timestamp=when + timedelta(days=1))
    with pytest.raises(VersionNotFoundError):
        table.restore(version=99)


def test_back_and_forth(lake: deltasql.Lake):
    table = churned(lake)
    for version in (1, 3, 0, 2):
        table.restore(version)
        assert ids(table.scan().to_arrow()) == ids(table.snapshot(version).scan().to_arrow())
    table.vacuum(**AT_ONCE, dry_run=False)
    assert files(table) == live(table)
    assert lake.check().ok


def test_schema_and_properties_come_back(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA, properties={"color": "red"})
    table.append(rows(1))
    wider = rows(2).append_column("more", pa.array([1.5]))
    table.append(wider, schema_mode="merge")
    table.restore(version=1)
    assert table.snapshot().schema.names == ["id", "day"]
    assert table.snapshot().properties["color"] == "red"
    assert seen_by_all(lake, table) == [{"id": 1, "day": "a"}]
    table.append(rows(3))
    table.restore(version=2)
    assert {row["more"] for row in seen_by_all(lake, table)} == {None, 1.5}
    assert table.snapshot().properties["delta.enableInCommitTimestamps"] == "true"


def test_missing_files_stop_it(lake: deltasql.Lake):
    table = churned(lake)
    table.vacuum(**AT_ONCE, dry_run=False)
    before = table.version
    with pytest.raises(ValidationError, match="1 of its files are gone"):
        table.restore(version=1)
    table.restore(version=0)
    assert (table.version, table.scan().to_arrow().num_rows) == (before + 1, 0)


def test_what_vacuum_has_written_down_counts_as_gone(
    lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = churned(lake)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("deltasql.maintenance.vacuuming.journal.Journal._delete", die)
        with pytest.raises(KeyboardInterrupt):
            table.vacuum(**AT_ONCE, dry_run=False)
    with pytest.raises(ValidationError, match="gone"):
        table.restore(version=1)


def test_a_commit_meanwhile_is_a_conflict(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    table = churned(lake)
    real = deltasql.lake.upkeep.maintaining.must_exist

    def slow(*args: object, **given: object) -> None:
        real(*args, **given)  # type: ignore[arg-type]
        lake.table("a.t").overwrite(rows(77))

    monkeypatch.setattr("deltasql.lake.upkeep.maintaining.must_exist", slow)
    with pytest.raises(CommitError):
        table.restore(version=1)
    assert ids(table.scan().to_arrow()) == [77]
    assert lake.pins() == []


@pytest.mark.stress
def test_restores_beside_vacuums(lake_url: str, tmp_path: Path, stress_factor: float):
    """Whatever a restore has committed is readable, however vacuum runs beside it."""
    location = str(tmp_path / "lake")
    with deltasql.connect(lake_url, location=location) as lake:
        table = churned(lake, times=10)
        stop = threading.Event()
        wrong: list[BaseException] = []

        def vacuum() -> None:
            with deltasql.connect(lake_url, location=location) as other:
                while not stop.is_set():
                    try:
                        other.table("a.t").vacuum(**AT_ONCE, dry_run=False)
                    except ValidationError as error:
                        # A restore under way: that is what the refusal is for.
                        if "under way" not in str(error):
                            wrong.append(error)
                    except BaseException as error:  # noqa: BLE001 - told by the test
                        wrong.append(error)
                        return

        beside = threading.Thread(target=vacuum)
        beside.start()
        try:
            done = 0
            for number in range(int(200 * stress_factor)):
                table.overwrite(rows(number))
                try:
                    table.restore(table.version - 1)
                    done += 1
                except ValidationError as error:
                    if "gone" not in str(error):
                        raise
                assert table.scan().to_arrow().num_rows == 1
        finally:
            stop.set()
            beside.join()
        assert wrong == []
        assert folder(table).exists()
