"""An adoption killed at any step leaves nothing to see, and the next one goes on from there."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import deltasql
from deltasql.log.replay import Replay
from deltasql.spec import codec
from tests.adoption.dying import adopt_and_die
from tests.adoption.logs import METADATA, PROTOCOL, add, commit_file, remove, write_log
from tests.sizes import FULL
from tests.stress import swarm

KILLED = -signal.SIGKILL
MOST_STEPS = 400
VERSIONS = 6


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(
        tmp_path_factory.mktemp("log") / "t",
        [PROTOCOL, METADATA, add("a"), add("b")],
        [remove("a"), add("c"), {"txn": {"appId": "x", "version": 1}}],
        [add("d"), add("e"), add("f"), add("g")],
        [remove("b"), remove("ghost"), add("h")],
        [add("c", size=7)],
        [remove("d"), remove("e"), add("i")],
    )


def must_be_whole(table: deltasql.Table, root: Path) -> None:
    replay = Replay()
    for version in range(VERSIONS):
        replay.apply(version, codec.decode_commit(commit_file(root, version).read_bytes()))
        found = {(item.path, item.dv_id): item for item in table.snapshot(version).adds()}
        assert found == replay.files, version
    assert table.version == VERSIONS
    assert table.read_only is None
    assert [entry.operation for entry in table.history()].count("ADOPT") == 1
    bodies = {
        item.version: item.body for item in table._lake.store.commits(table.table_id, after=-1)
    }
    assert bodies == {
        version: commit_file(root, version).read_bytes() for version in range(VERSIONS + 1)
    }


def steps(stride: int) -> Iterator[tuple[int, str]]:
    yield from product(range(0, MOST_STEPS, stride), ("before", "after"))


# In SQLite every row is a step: not each of them is taken.
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("dialect", "stride"),
    [
        ("sqlite", 9 if FULL else 19),
        pytest.param("postgres", 4 if FULL else 9, marks=pytest.mark.postgres),
        ("duckdb", 9 if FULL else 19),
    ],
)
def test_killed_at_every_step(
    dialect: str, stride: int, log: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    killed = 0
    for number, (step, when) in enumerate(steps(stride)):
        if dialect == "sqlite" and when == "after":
            continue  # the trace tells of beginnings only
        root = tmp_path / f"table{number}"
        shutil.copytree(log, root, copy_function=shutil.copy2)
        url = _database(dialect, number, tmp_path, request)
        deltasql.connect(url, location=(tmp_path / "lake").as_uri()).close()
        child = swarm.start(adopt_and_die, url, (tmp_path / "lake").as_uri(), str(root), step, when)
        child.join(60)
        assert child.exitcode in (0, KILLED), (step, when)
        with deltasql.connect(url, location=(tmp_path / "lake").as_uri()) as lake:
            if lake.tables():
                must_be_whole(lake.table("t"), root)
            else:
                assert child.exitcode == KILLED
                _let_leases_expire(lake)
                must_be_whole(lake.adopt(str(root), name="t", validate=False), root)
            assert lake.store.staged_tables() == []
        if child.exitcode == 0:
            break
        killed += 1
    else:
        pytest.fail(f"the adoption has more than {MOST_STEPS} steps")
    assert killed >= 5


def _database(dialect: str, number: int, tmp_path: Path, request: Any) -> str:
    if dialect != "postgres":
        return f"{dialect}:///{tmp_path / f'lake{number}.db'}"
    server = request.getfixturevalue("postgres_server")
    name = f"adopt_crash_{number}"
    url: str = server.create_database(name)
    request.addfinalizer(lambda: server.drop_database(name))
    return url


def _let_leases_expire(lake: deltasql.Lake) -> None:
    """Half a minute goes by."""
    with lake.store.locked([]) as log:
        log.execute("UPDATE dl_mirror_leases SET expires_at = '2001-01-01 00:00:00.000'")


def test_resuming_reads_only_what_is_missing(log: Path, tmp_path: Path, lake: Any) -> None:
    root = tmp_path / "table"
    shutil.copytree(log, root, copy_function=shutil.copy2)

    class StopError(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.version == 4:
            raise StopError

    from deltasql.adoption.loading import parts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "MOST_VERSIONS", 2)
        with pytest.raises(StopError):
            lake.adopt(str(root), name="t", progress=stop, validate=False)
    (staged,) = lake.store.staged_tables()
    assert staged.newest == 3
    seen: list[int] = []
    table = lake.adopt(
        str(root), name="t", progress=lambda item: seen.append(item.version), validate=False
    )
    assert seen == [4, 5, 6]
    assert table.table_id == staged.table_id
    must_be_whole(table, root)


def test_a_log_that_changed_meanwhile_is_read_anew(log: Path, tmp_path: Path, lake: Any) -> None:
    root = tmp_path / "table"
    shutil.copytree(log, root, copy_function=shutil.copy2)
    table_id = lake.store.stage_table("t", root.as_uri())
    assert table_id
    with pytest.raises(ZeroDivisionError):
        lake.adopt(str(root), name="t", progress=lambda _: 1 // 0, validate=False)
    write_log(root, [PROTOCOL, METADATA, add("other")])
    table = lake.adopt(str(root), name="t", validate=False)
    assert {found.path for found in table.snapshot(0).adds()} == {"other"}
