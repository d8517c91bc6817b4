"""On a terminal: tables in colour, progress, Ctrl-C; in a pipe: none of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import rows

ESCAPE = "\x1b["


def test_tables_are_drawn_and_coloured(program, orders):
    # As wide as the folders of tests are long.
    shown = program.on_terminal("tables", environment={"COLUMNS": "160"})
    assert shown.code == 0
    assert ESCAPE in shown.out
    assert "─" in shown.out
    assert "sales.orders" in shown.out


def test_failed_tables_stand_out(program, orders):
    orders.mirror.pause()
    orders.append(rows(4))
    shown = program.on_terminal("mirror", "status")
    assert shown.code == 3
    assert f"{ESCAPE}33m" in shown.out


def test_a_pipe_gets_plain_text(program, orders):
    for arguments in (["tables"], ["show", "sales.orders"], ["show", "nope"], ["--help"]):
        done = program(*arguments)
        assert ESCAPE not in done.out + done.err, arguments


def test_no_color_is_honoured(program, orders):
    shown = program.on_terminal("mirror", "status", environment={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[3\dm", shown.out)


def test_an_error_is_one_red_block(program, lake):
    shown = program.on_terminal("show", "nope")
    assert shown.code == 1
    assert shown.out.startswith(f"{ESCAPE}31;1merror:{ESCAPE}0m there is no table nope\n  cause: ")


@pytest.mark.parametrize(
    ("command", "doing"),
    [
        ("mirror validate", "validating"),
        ("mirror repair sales.orders", "comparing commits"),
        ("mirror export sales.orders copy --copy-data", "exporting"),
        ("db check", "checking"),
        ("adopt old sales.old", "reading the log"),
        ("recover", "recovering tables"),
    ],
)
def test_long_work_has_a_bar(program, orders, command, doing):
    import deltalake

    deltalake.write_deltalake(str(program.folder / "old"), rows(1, 2))
    words = command.split()
    assert f"{doing} " in program.on_terminal(*words).out
    again = [*words[:3], "copy2", *words[4:]] if "export" in words else words
    assert doing not in program(*again).err


def test_a_no_is_no_interruption(program, orders):
    refused = program.on_terminal("drop", "sales.orders", typed="n\n")
    assert refused.code == 1
    assert refused.out.endswith("nothing was done\n")
    assert orders.version == 2, "it is still there"


@pytest.mark.parametrize(
    "command", ["drop nope", "drop nope --purge", "purge nope", "release nope"]
)
def test_what_is_not_there_is_not_asked_about(program, orders, command):
    ended = program(*command.split())
    assert ended.code == 1
    assert "there is no " in ended.err
    assert "?" not in ended.out + ended.err
    assert orders.version == 2


@pytest.mark.parametrize(
    "command", ["tables", "history sales.orders", "audit --since 1d", "mirror status", "db check"]
)
def test_a_terminal_and_a_pipe_have_the_same_columns(program, orders, command):
    """But for those that are empty, or all zero, in every row."""
    piped = program(*command.split())
    names = piped.out.splitlines()[0].split("\t")
    told = [
        name.replace("_", " ")
        for place, name in enumerate(names)
        if place == 0 or any(row[place] not in ("", "0", "0.0", "no") for row in piped.rows)
    ]
    wide = {"COLUMNS": "300", "NO_COLOR": "1"}
    drawn = program.on_terminal(*command.split(), environment=wide).out
    drawn = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", drawn)
    if not piped.rows:
        assert "nothing is damaged" in drawn
        return
    heading = next(line for line in drawn.splitlines() if told[0] in line)
    assert re.split(r"\s{2,}", heading.strip()) == told


def test_json_stays_json_on_a_terminal(program, orders):
    assert program.on_terminal("tables", "-o", "json").json[0]["table"] == "sales.orders"


def test_a_closed_pipe_is_no_error(program, lake):
    table = lake.create_table("many", rows(1).schema)
    table.append(rows(*range(50_000)))
    writer = program.start("scan", "many", "--limit", "0")
    assert writer.stdout.readline() == "id\tday\tamount\n"
    writer.stdout.close()
    assert writer.stderr.read() == ""
    assert writer.wait(timeout=60) == 141


@pytest.mark.usefixtures("orders")
class TestInterrupted:
    def test_the_worker_ends_in_order(self, program):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = program.start("mirror", "run", "--metrics-port", "0")
            assert "metrics at" in process.stderr.readline()
            _until_waiting(process)
            process.send_signal(number)
            _, err = process.communicate(timeout=30)
            assert process.returncode == 0, err
            assert "Traceback" not in err

    def test_ctrl_c_elsewhere(self, program, orders):
        # A lake whose database is locked by somebody keeps the program waiting.
        with orders._lake.store.locked([orders.table_id]):
            process = program.start("mirror", "pause", "sales.orders")
            time.sleep(3)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert err == "interrupted; what was committed stays committed\n"

    @pytest.mark.parametrize(("verb", "told"), [("adopt", "--abandon"), ("repair", "to continue")])
    def test_ctrl_c_says_how_to_go_on_and_that_is_true(self, program, lake, orders, verb, told):
        import deltalake

        place = program.folder / "lake" / "old"
        deltalake.write_deltalake(str(place), rows(1, 2))
        lost = Path(orders.location) / "_delta_log" / f"{1:020}.json"
        if verb == "repair":
            lost.unlink()
        command = {
            "adopt": ("adopt", str(place), "old"),
            "repair": ("mirror", "repair", "sales.orders"),
        }[verb]
        with lake.store.locked([orders.table_id]):
            process = program.start(*command)
            _until_at_the_lock(process)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "interrupted; what was committed stays committed; " in err
        assert told in err
        assert "Traceback" not in err
        again = program.start(*command)
        _, err = again.communicate(timeout=100)
        assert again.returncode == 0, err
        if verb == "repair":
            assert lost.exists()
        else:
            assert lake.table("old").count() == 2


def _opened_by(process: subprocess.Popen[str]) -> list[str]:
    found = []
    for item in Path(f"/proc/{process.pid}/fd").iterdir():
        # Some are closed while we look.
        with suppress(FileNotFoundError):
            found.append(str(item.readlink()))
    return found


def _until_at_the_lock(process: subprocess.Popen[str]) -> None:
    """Until the program stands in the queue of writers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        if any(name.endswith("lake.db.lock") for name in _opened_by(process)):
            time.sleep(0.5)
            return
        time.sleep(0.05)
    raise AssertionError("it never wanted to write")


def _until_waiting(process: subprocess.Popen[str]) -> None:
    """Until the worker has set its signal handlers."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        caught = next(line for line in status if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) & (1 << (signal.SIGTERM - 1)):
            return
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    raise AssertionError("the worker never began")


class TestCompletion:
    def complete(self, program, words: str, **environment: str) -> list[str]:
        """What bash is told for the last of the words."""
        done = program(
            _DELTASQL_COMPLETE="complete_bash",
            COMP_WORDS=f"deltasql {words}",
            COMP_CWORD=str(len(words.split(" "))),
            **environment,
        )
        assert done.code == 0, done.err
        return done.out.split()

    @pytest.mark.usefixtures("orders")
    def test_commands_and_tables(self, program):
        assert self.complete(program, "mirror re") == ["repair", "resume"]
        assert self.complete(program, "show sal") == ["sales.orders"]
        assert self.complete(program, "show nope") == []

    def test_no_lake_is_no_trouble(self, program):
        assert self.complete(program, "show s") == []
        url = {"DELTASQL_URL": "postgresql://x@127.0.0.1:1/y"}
        assert self.complete(program, "show s", **url) == []

    def test_every_shell_has_a_script(self, program):
        for shell in ("bash", "zsh", "fish"):
            shown = program(
                "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
            )
            assert "_DELTASQL_COMPLETE" in shown.out
