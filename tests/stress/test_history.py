"""The checker itself: a true history passes, and every kind of lie is found."""

from __future__ import annotations

import copy
import re
import shutil
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import deltasql
from tests.stress import history
from tests.stress.database import digest_of
from tests.stress.history import HistoryError
from tests.stress.journal import Cut, Journal, Look, Told
from tests.stress.swarm import Swarm
from tests.stress.writers import SEVERAL_TABLES, Writer, create_tables


@dataclass(frozen=True)
class Run:
    """A finished run of writers and its database."""

    path: Path
    location: str
    told: Told

    def check(self) -> history.Summary:
        return history.check(f"sqlite:///{self.path}", self.location, self.told)

    def copied(self, directory: Path) -> Run:
        path = directory / "copy.db"
        shutil.copy(self.path, path)
        return replace(self, path=path, told=copy.deepcopy(self.told))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Run:
    directory = tmp_path_factory.mktemp("history")
    path, location = directory / "lake.db", directory.joinpath("lake").as_uri()
    url = f"sqlite:///{path}"
    mix = {kind: 1 for kind in SEVERAL_TABLES if kind != "large"}
    swarm = Swarm(url, location, directory, create_tables(url, location, 3), mix)
    jobs = swarm.jobs(2, 45)
    with deltasql.connect(url, location=location) as lake:
        for job in jobs:
            journal = Journal(job.journal)
            Writer(job, lake, journal).run()
            journal.close()
    with sqlite3.connect(path) as connection:
        # All in one file, to be copied.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Run(path, location, Told.read(*(job.journal for job in jobs)))


def test_a_true_history_passes(finished):
    found = finished.check()
    assert found.acknowledged == 90
    assert found.looks > 0


ONE = "table_id = 1 AND version = (SELECT max(version) FROM {0} WHERE table_id = 1)"
LIES = {
    "a version is missing": "DELETE FROM dl_table_versions WHERE table_id = 1 AND version = 5",
    "the last version is missing": "DELETE FROM dl_table_versions WHERE "
    + ONE.format("dl_table_versions"),
    "the head is behind": "UPDATE dl_table_heads SET current_version = current_version - 1",
    "the head's time is off": "UPDATE dl_table_heads SET last_ict = last_ict + 1",
    "a body was changed": "UPDATE dl_table_versions SET body = CAST(body || x'0a' AS BLOB) "
    "WHERE version = 4",
    "times are equal": "UPDATE dl_table_versions SET in_commit_timestamp = in_commit_timestamp "
    "- 100000 WHERE version = 4",
    "a status is missing": "DELETE FROM dl_mirror_status WHERE version = 3",
    "a status is not pending": "UPDATE dl_mirror_status SET status = 'SUCCESS' WHERE version = 3",
    "a live file is missing": "DELETE FROM dl_active_files WHERE path IN "
    "(SELECT path FROM dl_active_files LIMIT 1)",
    "a live file is of another version": "UPDATE dl_active_files SET version = version - 1",
    "a dead file is missing": "DELETE FROM dl_dead_files",
    "a dead file died later": "UPDATE dl_dead_files SET removed_version = removed_version + 1",
    "a txn is missing": "DELETE FROM dl_txn_actions",
    "another committer": "UPDATE dl_table_versions SET committer = 'me' WHERE version = 4",
    "another transaction": "UPDATE dl_table_versions SET transaction_id = 'x' WHERE version = 4",
    "stats differ": "UPDATE dl_active_files SET stats = '{}'",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_changed_database_is_found(finished, tmp_path, lie):
    run = finished.copied(tmp_path)
    with sqlite3.connect(run.path) as connection:
        assert connection.execute(LIES[lie]).rowcount > 0
    connection.close()
    with pytest.raises(HistoryError):
        run.check()


class TestChangedJournal:
    """The database is as it was; what the writers were told is not."""

    @pytest.fixture
    def run(self, finished, tmp_path) -> Run:
        return finished.copied(tmp_path)

    def test_another_version_was_acknowledged(self, run):
        intent = run.told.done[10]
        intent.versions = {name: version + 1 for name, version in intent.versions.items()}
        self._is_found(run, "was acknowledged as")

    def test_an_acknowledged_commit_is_not_there(self, run):
        lost = copy.copy(next(intent for intent in run.told.done if intent.app is None))
        lost.tag = "lost"
        run.told.intents["lost"] = lost
        self._is_found(run, "was acknowledged as")

    def test_a_refused_commit_is_there(self, run):
        intent = run.told.done[10]
        intent.versions, intent.refused = None, "ConcurrentAppendError"
        self._is_found(run, "though its writer got")

    def test_other_actions_were_sent(self, run):
        intent = next(i for i in run.told.done if i.kind == "append")
        ((name, actions),) = intent.tables.items()
        intent.tables = {name: actions[1:]}
        self._is_found(run, "actions")

    def test_half_of_a_transaction_is_there(self, run):
        intent = next(i for i in run.told.done if i.kind == "several")
        intent.tables = {**intent.tables, "stress.t9": []}
        intent.versions = None
        self._is_found(run, "is in")

    def test_the_order_is_not_that_of_the_clock(self, run):
        intents = [i for i in run.told.done if i.kind == "append"]
        first = intents[0]
        first.began = first.ended = max(intent.ended for intent in run.told.done) + 1
        self._is_found(run, "was acknowledged before")

    def test_a_read_that_did_not_hold(self, run):
        changed = next(i for i in run.told.done if i.kind == "set_property")
        ((name, version),) = changed.versions.items()
        later = next(
            i
            for i in run.told.done
            if i.kind == "replace_files" and i.versions.get(name, -1) > version
        )
        with sqlite3.connect(run.path) as connection:
            _rebase(connection, name, later.versions[name], version - 1)
        connection.close()
        self._is_found(run, "changed the metadata")

    def test_a_reader_saw_other_files(self, run):
        run.told.looks.append(Look("stress.t0", 3, history.paths_digest(["x"])))
        self._is_found(run, "a reader saw")

    def test_a_cut_halves_a_transaction(self, run):
        versions = next(i for i in run.told.done if i.kind == "several").versions
        first, *others = versions
        halves = {first: versions[first], **{name: versions[name] - 1 for name in others}}
        run.told.cuts.append(Cut(halves))
        self._is_found(run, "halves")

    def test_a_file_is_gone(self, run, tmp_path):
        moved = tmp_path / "moved"
        shutil.copytree(run.location.removeprefix("file://"), moved)
        with sqlite3.connect(run.path) as connection:
            for (name,) in connection.execute("SELECT location FROM dl_tables").fetchall():
                other = name.replace(run.location, moved.as_uri())
                connection.execute(
                    "UPDATE dl_tables SET location = ? WHERE location = ?", (other, name)
                )
        connection.close()
        run.check()
        for path in moved.rglob("*.parquet"):
            path.unlink()
        self._is_found(run, "its file is gone")

    def _is_found(self, run: Run, words: str) -> None:
        with pytest.raises(HistoryError, match=words):
            run.check()


def _rebase(connection: sqlite3.Connection, name: str, version: int, base: int) -> None:
    """Let a commit claim that it read an older version, consistently."""
    place = "table_id = (SELECT table_id FROM dl_tables WHERE name = ?) AND version = ?"
    ((body,),) = connection.execute(
        f"SELECT body FROM dl_table_versions WHERE {place}", (name, version)
    ).fetchall()
    changed = re.sub(rb'"readVersion":\d+', b'"readVersion":%d' % base, body)
    digest = digest_of(changed)
    connection.execute(
        f"UPDATE dl_table_versions SET body = ?, digest = ? WHERE {place}",
        (changed, digest, name, version),
    )
    connection.execute(
        f"UPDATE dl_mirror_status SET digest = ? WHERE {place}", (digest, name, version)
    )
