"""Every command, as text in a pipe and as JSON, with its exit code."""

from __future__ import annotations

import json
import os

import pytest

import deltasql
from tests.cli.conftest import rows

LOG = "lake/sales/orders/_delta_log"


def test_init_makes_a_lake_and_its_file(program):
    done = program("init", "sqlite:///lake.db", "--location", "./lake")
    assert (done.code, done.err) == (0, "")
    assert (program.folder / "lake.db").exists()
    assert program("tables").code == 0
    again = program("init", "sqlite:///lake.db")
    assert again.code == 0
    other = program("init", "sqlite:///other.db")
    assert other.code == 1
    assert "names another lake" in other.err


def test_init_leaves_a_password_out_of_the_file(program, postgres_url):
    address = postgres_url.replace("postgres@", "postgres:s3cret@")
    done = program("init", address, "--location", "./lake")
    assert done.code == 0, done.err
    assert "PGPASSWORD" in done.err
    assert "s3cret" not in done.out + done.err + (program.folder / "deltasql.toml").read_text()
    assert program("tables").code == 0


def test_no_command_but_init_and_migrate_makes_a_database(program):
    for arguments in (["tables"], ["mirror", "run", "--once"], ["db", "status"]):
        done = program(*arguments, "--url", "sqlite:///typo.db")
        assert done.code in (1, 3), arguments
        assert not (program.folder / "typo.db").exists()
    assert "deltasql init" in program("tables", "--url", "sqlite:///typo.db").err


def test_tables(program, orders):
    done = program("tables")
    assert done.out.splitlines()[0] == "table\tversion\tlocation\tread_only\tkind"
    assert done.rows == [["sales.orders", "2", orders.location, "", "live"]]
    assert program("tables", "other.*").rows == []
    found = program("tables", "sales.*", "--output", "json").json
    (told,) = found
    assert told == {
        "table": "sales.orders",
        "version": 2,
        "location": orders.location,
        "read_only": None,
        "kind": "live",
    }
    assert program("--output", "json", "tables").json == found


def test_drop_and_purge(program, orders):
    root = program.folder / "lake/sales/orders"
    (root / "notes.txt").write_text("mine")
    assert program("drop", "sales.orders").code == 1, "nobody answered"
    assert program("drop", "sales.orders", "--yes").code == 0
    assert program("tables").rows == []
    (found,) = program("tables", "--dropped", "-o", "json").json
    assert (found["table"], found["id"], found["is_purging"]) == (
        "sales.orders",
        orders.table_id,
        False,
    )
    assert program("tables", "other.*", "--dropped").rows == []
    assert program("purge", "sales.orders").code == 1
    done = program("purge", str(found["id"]), "--yes", "-o", "json").json
    assert (done["files"], done["kept"]) == (2, ["notes.txt"])
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["notes.txt"]
    assert program("tables", "--dropped").rows == []
    again = program("purge", "sales.orders", "--yes")
    assert again.code == 1
    assert "no dropped table" in again.err


def test_drop_with_purge(program, orders):
    done = program("drop", "sales.orders", "--purge", "--yes")
    assert done.code == 0, done.err
    assert "2 files" in done.out + done.err
    assert not list((program.folder / "lake").rglob("*.parquet"))


def test_a_released_table_says_so(program, orders):
    assert program("release", "sales.orders", "--yes").code == 0
    (row,) = program("tables").rows
    assert row[3].startswith("released at version 3")
    (found,) = program("mirror", "status", "-o", "json").json
    assert found["is_released"] is True
    (found,) = program("mirror", "status", "sales.orders", "-o", "json").json
    assert found["is_released"] is True
    assert len(program("scan", "sales.orders").rows) == 3
    (program.folder / LOG / f"{4:020}.json").write_text("{}")
    assert "released" in program("show", "sales.orders").out
    refused = program("scan", "sales.orders")
    assert refused.code == 1
    assert "released" in refused.err
    assert len(program("scan", "sales.orders", "--version", "3").rows) == 3


def test_show(program, orders):
    shown = program("show", "sales.orders", "--version", "1", "-o", "json").json
    assert shown["version"] == 1
    assert shown["files"] == 1
    assert shown["partitioned_by"] == ["day"]
    assert [column["name"] for column in shown["schema"]] == ["id", "day", "amount"]
    assert "version\t2" in program("show", "sales.orders").out
    assert program("show", "sales.orders", "--as-of", "1999-01-01").code == 1


def test_history_and_audit(program, orders):
    entries = program("history", "sales.orders", "--limit", "2", "-o", "json").json
    assert [entry["version"] for entry in entries] == [2, 1]
    assert entries[0]["committer"] == "me"
    assert len(program("history", "sales.orders", "--limit", "0").rows) == 3
    audited = program("audit", "--from", "2020-01-01", "-o", "json").json
    assert [(entry["table"], entry["version"]) for entry in audited] == [
        ("sales.orders", version) for version in range(3)
    ]
    assert program("audit", "--from", "2020-01-01", "--to", "2021-01-01").rows == []


def test_files(program, orders):
    assert len(program("files", "sales.orders").rows) == 2
    pruned = program("files", "sales.orders", "--where", "day = '2026-11-02'", "-o", "json").json
    assert [file["partition_values"] for file in pruned] == ['{"day":"2026-11-02"}']
    assert program("files", "sales.orders", "--where", "day =").code == 1


def test_scan(program, orders):
    assert program("scan", "sales.orders", "--columns", "id,day").rows == [
        ["1", "2026-11-01"],
        ["2", "2026-11-01"],
        ["3", "2026-11-02"],
    ]
    found = program("scan", "sales.orders", "--where", "id > 2", "-o", "json").json
    assert found == [{"id": 3, "day": "2026-11-02", "amount": 1.5}]
    cut = program("scan", "sales.orders", "--limit", "2")
    assert len(cut.rows) == 2
    assert "--limit 0" in cut.err
    assert len(program("scan", "sales.orders", "--limit", "0").rows) == 3
    assert program("scan", "sales.orders", "--version", "0", "-o", "json").json == []


class TestMirror:
    def test_status_tells_lag_by_its_exit_code(self, program, orders):
        assert program("mirror", "status").code == 0
        assert program("mirror", "pause", "sales.orders").code == 0
        orders.append(rows(4))
        behind = program("mirror", "status", "-o", "json")
        assert behind.code == 3
        assert behind.json[0]["lag_versions"] == 1
        assert behind.json[0]["is_paused"]
        assert program("mirror", "resume", "sales.orders", "-o", "json").json == {
            "table": "sales.orders",
            "is_paused": False,
        }
        drained = program("mirror", "run", "--once", "-o", "json")
        assert (drained.code, drained.json) == (0, {"written": 1, "behind": []})
        assert program("mirror", "status", "sales.orders").code == 0

    @pytest.mark.usefixtures("orders")
    def test_validate_and_repair_find_and_mend_drift(self, program):
        assert program("mirror", "validate").code == 0
        commit = program.folder / LOG / f"{1:020}.json"
        before = commit.read_bytes()
        commit.unlink()
        drift = program("mirror", "validate", "sales.orders", "-o", "json")
        assert drift.code == 3
        assert drift.json[0]["missing_versions"] == [1]
        mended = program("mirror", "repair", "sales.orders", "--version=1", "-o", "json")
        assert (mended.code, mended.json["restored"]) == (0, [1])
        assert commit.read_bytes() == before
        assert program("mirror", "validate").code == 0

    @pytest.mark.usefixtures("orders")
    def test_repair_reports_what_it_may_not_touch(self, program):
        commit = program.folder / LOG / f"{1:020}.json"
        commit.write_text("{}\n")
        foreign = program("mirror", "repair", "sales.orders", "--version", "1")
        assert foreign.code == 3
        assert commit.read_text() == "{}\n"
        assert program("mirror", "repair", "sales.orders", "--version", "1", "--force").code == 0
        assert program("mirror", "validate").code == 0

    @pytest.mark.usefixtures("orders")
    def test_cleanup_only_says_what_would_go(self, program):
        report = program("mirror", "cleanup", "sales.orders", "-o", "json").json
        assert report["dry_run"] is True
        assert (
            program("mirror", "cleanup", "sales.orders", "--delete", "-o", "json").json["dry_run"]
            is False
        )

    @pytest.mark.usefixtures("orders")
    def test_version_needs_one_table(self, program):
        assert program("mirror", "validate", "--version", "1").code == 2


class TestDatabase:
    def test_migrate_and_status(self, program):
        url = ("--url", "sqlite:///lake.db")
        missing = program("db", "status", *url, "-o", "json")
        assert missing.code == 3
        assert missing.json["found"] == 0
        migrated = program("db", "migrate", *url, "-o", "json")
        assert migrated.json["from"] == 0
        assert migrated.json["to"] == missing.json["expected"]
        current = program("db", "status", *url, "-o", "json")
        assert current.code == 0
        assert current.json["server"]["dialect"] == "sqlite"
        told = dict(line.split("\t") for line in program("db", "status", *url).out.splitlines())
        assert (told["schema_version"], told["dialect"]) == (told["expected_version"], "sqlite")
        assert "{" not in "".join(told.values())

    @pytest.mark.usefixtures("orders")
    def test_check_and_rebuild(self, program, lake):
        sound = program("db", "check")
        assert (sound.code, sound.rows) == (0, [])
        assert (
            "sales.orders: ok at version 2, 2 files, replayed from its first version" in sound.err
        )
        assert "replayed from version 2" in program("db", "check", "sales.orders").err
        assert "first version" in program("db", "check", "sales.orders", "--full").err
        with lake.store.locked([]) as log:
            log.execute("DELETE FROM dl_active_files WHERE version = 1")
        damaged = program("db", "check", "sales.orders", "-o", "json")
        assert damaged.code == 3
        (finding,) = damaged.json
        assert (finding["table"], finding["kind"]) == ("sales.orders", "live file")
        assert finding["version"] == 1
        assert "deltasql db rebuild TABLE" in finding["remedy"]
        refused = program("mirror", "repair", "sales.orders")
        assert refused.code == 1
        assert "deltasql db check TABLE" in refused.err
        done = program("db", "rebuild", "sales.orders", "-o", "json")
        assert done.json == {"table": "sales.orders", "version": 2, "versions": 3, "files": 2}
        assert program("db", "check").code == 0
        assert program("mirror", "repair", "sales.orders").code == 0
        assert program("db", "rebuild", "typo").code == 1

    def test_grants_quotes_names(self, program):
        done = program("db", "grants", "--reader", 'r"; DROP TABLE x; --')
        assert '"r""; DROP TABLE x; --"' in done.out
        assert program("db", "grants", "--reader", "a\nb").code == 1
        assert program("db", "grants", "-o", "json").json["sql"].startswith("--")


def test_demo(program):
    assert "one transaction over both tables" in program("demo").out
    told = program("demo", "--folder", "kept", "-o", "json").json
    assert told["transaction"] == {"sales.orders": 2, "sales.lines": 2}
    url = f"sqlite:///{program.folder / 'kept' / 'lake.db'}"
    assert len(program("tables", "--url", url).rows) == 2
    assert sorted(path.name for path in program.folder.iterdir()) == ["kept"]


class TestFailures:
    @pytest.mark.usefixtures("lake")
    def test_one_block_on_stderr(self, program):
        failed = program("show", "nope")
        assert (failed.code, failed.out) == (1, "")
        assert failed.err.splitlines() == [
            "error: there is no table nope",
            "  cause: it was never created, or it was dropped or renamed",
            "  remedy: deltasql tables lists them",
        ]

    @pytest.mark.usefixtures("orders")
    def test_a_typing_error_is_answered_with_a_name(self, program):
        failed = program("scan", "sales.order")
        remedy = "  remedy: did you mean sales.orders? deltasql tables lists them"
        assert failed.err.splitlines()[-1] == remedy

    @pytest.mark.usefixtures("orders")
    def test_the_place_of_an_error_is_pointed_at(self, program):
        lines = program("scan", "sales.orders", "--where", "id >").err.splitlines()
        pointed = next(number for number, line in enumerate(lines) if line.strip() == "^")
        assert lines[pointed].index("^") == lines[pointed - 1].index("id >") + len("id >")
        assert [line for line in lines if not line.startswith("    ")] == [
            lines[0], lines[1], lines[-1],
        ]  # fmt: skip

    @pytest.mark.usefixtures("lake")
    def test_as_json(self, program):
        told = json.loads(program("show", "nope", "-o", "json").err)["error"]
        assert told["type"] == "TableNotFoundError"
        assert told["problem"] == "there is no table nope"

    @pytest.mark.usefixtures("lake")
    def test_traceback_only_on_demand(self, program):
        assert "Traceback" in program("show", "nope", "--debug").err
        assert "Traceback" not in program("show", "nope").err

    @pytest.mark.parametrize(
        "arguments",
        [["nope"], ["tables", "--nope"], ["show"], ["scan", "t", "--limit", "x"], ["mirror"], []],
    )
    def test_usage(self, program, arguments):
        failed = program(*arguments)
        assert (failed.code, failed.out) == (2, "")
        assert "Usage: deltasql" in failed.err
        assert "Traceback" not in failed.err

    def test_no_lake(self, program):
        failed = program("tables")
        assert failed.code == 1
        assert "deltasql init" in failed.err


def test_version(program):
    assert program("--version").out == f"deltasql {deltasql.__version__}\n"


def test_leftovers_are_told(program):
    assert program("init", "sqlite:///lake.db", "--location", "./lake").code == 0
    assert program("leftovers").err.strip() == "nothing is left over"
    name = "part-00000-11111111-2222-3333-4444-555555555555-c000.snappy.parquet"
    path = program.folder / "lake/sales/dead" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"xyz")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    done = program("leftovers")
    assert done.code == 0
    assert "lake/sales/dead: 1 file (3 bytes), the last of 2023-11-14" in done.out + done.err
    told = program("leftovers", "--output", "json").json
    assert (told["files"], told["bytes"]) == (1, 3)
    wrong = program("leftovers", "--age", "nonsense")
    assert wrong.code in (1, 2)
    assert "unexpected" not in wrong.err
    assert path.exists()
