"""Large commits on PostgreSQL: whatever takes long happens before the head is locked."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from hashlib import sha256

import psutil
import psycopg
import pytest

import deltasql
from deltasql import RemoveFile
from deltasql.errors import ValidationError
from deltasql.spec.actions import AddFile
from deltasql.store.interface import VersionTaken
from deltasql.testing.proposals import proposal
from tests.faults.stopping import FILES, commit_and_stop
from tests.faults.waiting import Background, blocked, until, within
from tests.stress import swarm
from tests.stress.database import query, read_tables
from tests.stress.writers import SCHEMA, new_add


@pytest.fixture
def lake(postgres_url, tmp_path) -> Iterator[deltasql.Lake]:
    with deltasql.connect(
        postgres_url, location=tmp_path.as_uri(), settings={"sql.timeout": "5s"}
    ) as lake:
        yield lake


@pytest.fixture
def table(lake) -> deltasql.Table:
    return lake.create_table("a", SCHEMA, partition_by=["p"])


def _files(count: int, name: str = "f", **given) -> list[AddFile]:
    return [
        AddFile(
            path=f"{name}{number}.parquet",
            size=number,
            modification_time=0,
            partition_values={"p": "1"},
            stats='{"numRecords":1}',
            **given,
        )
        for number in range(count)
    ]


def _is_as_committed(url: str, name: str = "a") -> None:
    """The rows say what the stored bodies say."""
    found = read_tables(url)[name]
    live = {}
    for number, version in enumerate(found.versions):
        for action in version.actions:
            if isinstance(action, AddFile):
                live[action.path, action.dv_id] = number
            elif isinstance(action, RemoveFile):
                live.pop((action.path, action.dv_id), None)
    rows = query(url, "SELECT path, version FROM dl_active_files")
    assert sorted(rows) == sorted((path, version) for (path, _), version in live.items())


class TestStoppedClient:
    @pytest.mark.parametrize("count", [1, 2], ids=["commit", "transaction"])
    def test_holds_nobody_up(self, lake, table, postgres_url, tmp_path, count):
        names = ["a", "b"][:count]
        lake.create_table("b", SCHEMA, partition_by=["p"])
        client = swarm.start(commit_and_stop, postgres_url, tmp_path.as_uri(), names)
        process = psutil.Process(client.pid)
        try:
            until(lambda: process.status() == psutil.STATUS_STOPPED)
            with within(4):
                for number, name in enumerate(names * 2):
                    lake.table(name).commit([new_add(number, 1)])
                assert table.commit([new_add("many", 1) for _ in range(1_100)]) == 3
        finally:
            os.kill(client.pid, signal.SIGCONT)
        client.join(60)
        assert client.exitcode == 0
        assert [lake.table(name).version for name in names] == [4, 3][:count]
        assert table.snapshot().files().num_rows == FILES + 1_102

    def test_that_is_gone_leaves_nothing(self, table, postgres_url, tmp_path):
        client = swarm.start(commit_and_stop, postgres_url, tmp_path.as_uri(), ["a"])
        process = psutil.Process(client.pid)
        until(lambda: process.status() == psutil.STATUS_STOPPED)
        client.kill()
        client.join()
        assert table.commit(_files(1_500)) == 1
        assert query(postgres_url, "SELECT count(*) FROM dl_active_files") == [(1_500,)]
        until(lambda: query(postgres_url, _TEMPORARY) == [])


_TEMPORARY = "SELECT relname FROM pg_class WHERE relname LIKE 'dl_staged%'"


class TestHeadThatMoves:
    """Somebody commits between the arrival of the rows and the lock."""

    def _commit(self, table, postgres_url, actions, before) -> int:
        """Commit while another holds the head, and moves it as its last act."""
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT * FROM dl_table_heads FOR UPDATE")
            waiting = Background(lambda: table.commit(actions))
            until(lambda: blocked(postgres_url) == 1)
            other.execute(before)
        return waiting.result()

    def test_rows_are_moved(self, table, postgres_url):
        table.commit([new_add("a", 1)])
        moved = (
            "UPDATE dl_table_heads SET current_version = 2, last_ict = last_ict + 1;"
            "INSERT INTO dl_table_versions SELECT table_id, 2, 'other', committed_at,"
            " in_commit_timestamp + 1, committer, operation, operation_params, transaction_id,"
            " is_blind_append, digest, body_encoding, body FROM dl_table_versions"
            " WHERE version = 1;"
            "INSERT INTO dl_active_files SELECT table_id, 2, 'x', dv_key, partition_key, 1, 0, 1,"
            " NULL, NULL, true, NULL, NULL, NULL, 'other', partition_values FROM dl_active_files"
            " WHERE version = 1"
        )
        assert self._commit(table, postgres_url, _files(2_000), moved) == 3
        found = query(postgres_url, "SELECT version, count(*) FROM dl_active_files GROUP BY 1")
        assert sorted(found) == [(1, 1), (2, 1), (3, 2_000)]

    def test_rows_of_a_commit_that_lost_are_gone(self, lake, table, postgres_url):
        """They were in their place already, under the version that the winner took."""
        large = proposal(table.table_id, _files(2_000), expected_head=0)
        with lake.store.locked([table.table_id], drafts=[large]) as log:
            small = proposal(table.table_id, [new_add("a", 1)])
            assert log.write(small).version == 1
            assert isinstance(log.write(large), VersionTaken)
        assert query(postgres_url, "SELECT count(*) FROM dl_active_files") == [(1,)]
        assert table.commit(_files(2_000)) == 2
        _is_as_committed(postgres_url)


class TestDrafts:
    def test_transaction_that_happened_already(self, table, postgres_url):
        given = {"app_id": "app", "app_version": 7}
        assert table.commit(_files(1_500, "a"), **given) == 1
        assert table.commit(_files(1_500, "b"), **given) == 1
        assert query(postgres_url, "SELECT count(*) FROM dl_active_files") == [(1_500,)]

    def test_draft_that_is_never_written(self, lake, table, postgres_url):
        large = proposal(table.table_id, _files(2_000))
        with lake.store.locked([table.table_id], drafts=[large]) as log:
            assert log.heads[table.table_id].version == 0
        assert query(postgres_url, "SELECT count(*) FROM dl_active_files") == [(0,)]

    def test_draft_that_is_written_otherwise(self, lake, table, postgres_url):
        large = proposal(table.table_id, _files(2_000))
        other = proposal(table.table_id, _files(1_200, "other"), commit_id=large.commit_id)
        with lake.store.locked([table.table_id], drafts=[large]) as log:
            assert log.write(other).version == 1
        assert query(postgres_url, "SELECT count(*) FROM dl_active_files") == [(1_200,)]
        _is_as_committed(postgres_url)

    def test_files_that_are_live_are_restated(self, table, postgres_url):
        files = _files(1_500)
        assert table.commit(files[:1_200]) == 1
        assert table.commit(files) == 2
        _is_as_committed(postgres_url)
        assert table.snapshot(1).files().num_rows == 1_200
        twice = [*_files(1_200, "twice"), *_files(1, "twice")]
        with pytest.raises(ValidationError, match="twice"):
            table.commit(twice)

    def test_many_removes(self, table, postgres_url):
        files = _files(1_500)
        table.commit(files)
        removes = [RemoveFile(path=file.path, deletion_timestamp=1) for file in files[100:]]
        assert table.commit(removes, read_version=1, reads="all") == 2
        more = [RemoveFile(path=file.path, deletion_timestamp=1) for file in files[:50]]
        assert table.commit([*more, *_files(1_100, "g")], read_version=2, reads="all") == 3
        _is_as_committed(postgres_url)
        assert table.snapshot(1).files().num_rows == 1_500

    def test_several_tables(self, lake, table):
        other = lake.create_table("b", SCHEMA, partition_by=["p"])
        other.commit(_files(100))
        with lake.transaction() as tx:
            tx.table("a").commit(_files(1_200))
            # Some of these are live: then nothing can be copied straight to its place.
            tx.table("b").commit(_files(1_300))
        assert tx.versions == {"a": 1, "b": 2}
        assert table.snapshot().files().num_rows == 1_200
        assert other.snapshot().files()["version"].to_pylist() == [2] * 1_300

    def test_row_ids(self, lake):
        tracked = lake.create_table(
            "t", SCHEMA, partition_by=["p"], properties={"delta.enableRowTracking": "true"}
        )
        for version, name in enumerate(["x", "y"], start=1):
            assert tracked.commit(_files(1_500, name)) == version
        found = tracked.snapshot().files()
        assert sorted(found["base_row_id"].to_pylist()) == list(range(3_000))
        versions = found["default_row_commit_version"].to_pylist()
        assert sorted(versions) == [1] * 1_500 + [2] * 1_500

    def test_role_without_temporary_tables(self, lake, table, postgres_url, postgres_dbname):
        """It commits all the same, some rows at a time."""
        assert table.version == 0
        role = f"role_{postgres_dbname[-12:]}"
        grants = [
            f"CREATE ROLE {role} LOGIN",
            f"REVOKE TEMPORARY ON DATABASE {postgres_dbname} FROM PUBLIC",
            f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}",
            f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {role}",
        ]
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for grant in grants:
                connection.execute(grant)
            url = postgres_url.replace("postgres@", f"{role}@")
            with deltasql.connect(url, location=lake.location) as poor:
                assert poor.table("a").commit(_files(1_500)) == 1
                assert poor.table("a").commit(_files(1_600)) == 2
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
        _is_as_committed(postgres_url)


def test_body_is_the_one_that_was_committed(table, lake):
    """Compressed apart, and put together by the server."""
    table.commit(_files(2_000))
    (record,) = lake.store.commits(table.table_id, after=0)
    assert record.body.count(b'"add"') == 2_000
    assert sha256(record.body).digest() == lake.store.history(table.table_id)[0].digest
