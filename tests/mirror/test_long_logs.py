"""Long logs: no work holds what it reads version by version, or file by file."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import deltasql
from deltasql import Lake
from deltasql.adoption.loading import parts
from deltasql.delta_log.listing import list_log
from deltasql.mirror import statuses
from deltasql.mirror.checkpoints import soundness
from deltasql.mirror.validation import digests, second_reader
from deltasql.objectstore.store import ObjectInfo
from deltasql.store.checking import queries as checking_queries
from deltasql.store.sqlite import store as sqlite_store
from tests.adoption.logs import METADATA, PROTOCOL, add, write_log

SHORT, LONG = 300, 1_300
# Of each version: a digest, its commit file as numbers, and its name while names are sorted; the
# rest is what the lists of a page take. An object in the listing and an action were 2,500.
MOST_BYTES = 700


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read or sent at once is far less than either table has, so that it does not count."""
    monkeypatch.setattr(parts, "MOST_VERSIONS", 50)
    monkeypatch.setattr(checking_queries, "_DIGESTS", 50)
    monkeypatch.setattr(soundness, "_MOST_VERSIONS", 50)
    monkeypatch.setattr(statuses, "_PAGE", 50)
    monkeypatch.setattr(digests, "_AT_ONCE", 50)
    monkeypatch.setattr(sqlite_store, "_BATCH", 50)
    # In this process, whose memory is looked at.
    monkeypatch.setattr(second_reader, "MOST_COMMITS", 2 * LONG)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with a short and a long table, which have a file a version and no checkpoint."""
    folder = tmp_path_factory.mktemp("long")
    url = f"sqlite:///{folder}/lake.db"
    with deltasql.connect(url, location=folder.as_uri()) as opened:
        for versions in (SHORT, LONG):
            commits = ([add(f"part-{number:08}.parquet")] for number in range(versions))
            root = write_log(folder / f"log{versions}", [PROTOCOL, METADATA], *commits)
            opened.adopt(str(root), name=f"t{versions}", validate=False)
        yield opened


def growth(work: Callable[[int], object]) -> float:
    """How many bytes more each version of the long table takes at the peak."""
    work(SHORT)  # what is imported or remembered once does not count
    return (_peak(work, LONG) - _peak(work, SHORT)) / (LONG - SHORT)


def _peak(work: Callable[[int], object], versions: int) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work(versions)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_validating(lake: Lake) -> None:
    def work(versions: int) -> None:
        report = lake.table(f"t{versions}").mirror.validate()
        assert report.ok
        assert report.reader.startswith("deltasql, delta-rs")
        assert report.reader_error is None

    assert growth(work) < MOST_BYTES


def test_repairing(lake: Lake) -> None:
    def work(versions: int) -> None:
        assert lake.table(f"t{versions}").mirror.repair().errors == []

    assert growth(work) < MOST_BYTES


def test_exporting(lake: Lake, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in count())

    def work(versions: int) -> None:
        place = next(folders)
        done = lake.table(f"t{versions}").mirror.export(place.as_uri())
        assert done.versions >= versions
        # And again, over what is there: it is compared first.
        lake.table(f"t{versions}").mirror.export(place.as_uri())

    assert growth(work) < MOST_BYTES


def test_checking(lake: Lake) -> None:
    def work(versions: int) -> None:
        assert lake.check(f"t{versions}", full=True).ok

    assert growth(work) < MOST_BYTES


def test_adopting(lake: Lake, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in count())

    def work(versions: int) -> None:
        folder = next(folders)
        folder.mkdir()
        url, location = f"sqlite:///{folder}/lake.db", folder.as_uri()
        with deltasql.connect(url, location=location) as other:
            other.adopt(lake.table(f"t{versions}").location, name="t", fence=False)

    assert growth(work) < MOST_BYTES


class Listed:
    """A log of which nothing but its listing is read."""

    def __init__(self, versions: int) -> None:
        self._versions = versions

    def list(self, _: str) -> Iterator[ObjectInfo]:
        for version in range(self._versions):
            for end in ("crc", "json"):
                yield ObjectInfo(f"_delta_log/{version:020d}.{end}", 100, 1_770_000_000_000)


def test_listing() -> None:
    def work(versions: int) -> None:
        found = list_log(Listed(versions))  # type: ignore[arg-type]
        assert len(found.commits) == len(found.checksums) == versions
        assert found.commits[versions - 1].path.endswith(f"{versions - 1:020d}.json")

    assert growth(work) < MOST_BYTES
