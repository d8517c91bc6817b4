"""`doctor` finds what is wrong, and `init` what is missing, each with a remedy."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import rows


def found(program, *arguments):
    done = program("doctor", *arguments, "-o", "json")
    return done.code, {item["check"]: item for item in done.json}


def test_a_healthy_lake(program, orders):
    code, told = found(program)
    assert code == 0, told
    assert {"versions", "database", "grants", "clock", "store", "worker", "mirror", "drift"} <= set(
        told
    )
    assert told["drift"]["state"] == "ok"
    assert told["worker"]["remedy"], "none is running"


def test_a_deleted_commit_file_and_a_paused_mirror(program, orders, tmp_path):
    next((tmp_path / "lake").rglob("00000000000000000001.json")).unlink()
    code, told = found(program)
    assert code == 1
    assert "version 1 missing" in told["drift"]["finding"]
    assert "mirror repair sales.orders" in told["drift"]["remedy"]
    assert program("mirror", "repair", "--all").code == 0
    assert found(program)[0] == 0
    orders.mirror.pause()
    orders.append(rows(9))
    code, told = found(program)
    assert (code, told["mirror"]["state"]) == (1, "problem")
    assert "mirror resume" in told["mirror"]["remedy"]


def test_no_lake_and_no_server(program):
    code, told = found(program, "--url", "sqlite:///new.db")
    assert (code, told["database"]["remedy"]) == (1, "deltasql init")
    code, told = found(program, "--url", "postgresql://me@127.0.0.1:1/lake")
    assert (code, "is the server running" in told["database"]["remedy"]) == (1, True)


def test_init_says_that_a_location_cannot_be_used(program):
    place = "/proc/nowhere"
    done = program("init", "sqlite:///lake.db", "--location", place)
    assert done.code == 1
    assert "can't write objects there" in done.err
    assert not Path(program.folder / "deltasql.toml").exists()
    assert program("init", "sqlite:///lake.db", "--location", place, "--no-probe").code == 0


def test_init_leaves_nothing_behind(program):
    assert program("init", "sqlite:///lake.db", "--location", "./lake").code == 0
    assert not [path for path in (program.folder / "lake").rglob("*") if path.is_file()]


def test_existence_is_checked_before_asking(program, orders):
    for arguments in (["drop", "nope"], ["release", "nope"], ["purge", "nope"]):
        done = program(*arguments)
        assert done.code == 1
        assert "there is no " in done.err
        assert "[y/N]" not in done.out + done.err, "nobody was asked"


def test_undrop(program, orders):
    assert "undrop brings it back" in program("drop", "sales.orders", "--yes").out
    assert program("tables", "--all").rows[0][:2] == ["sales.orders", "dropped"]
    assert program("undrop", "sales.orders").out == "sales.orders is back, at version 2\n"


def test_what_changed_and_how_large(program, orders):
    told = program("audit", "--since", "1d", "--table", "sales.*", "-o", "json").json
    assert [item["rows_added"] for item in told] == [0, 2, 1]
    assert program("audit", "--table", "hr.*", "-o", "json").json == []
    shown = program("show", "sales.orders", "-o", "json").json
    assert (shown["rows"], shown["files"], shown["partitions"], shown["old_files"]) == (3, 2, 2, 0)
