"""Secrets on the command line: what init writes, what config show prints, where URLs come from."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from deltasql.cli.main import app, run
from deltasql.errors import ConfigError
from deltasql.settings.sources import resolve
from deltasql.spark.sessions.driver_file import DriverFile

SECRET = "s3cr3t"


def test_init_writes_no_secret(program, postgres_url, tmp_path):
    """A password in the query is one as well."""
    mark = "&" if "?" in postgres_url else "?"
    ran = program(
        "init", f"{postgres_url}{mark}password={SECRET}&connect_timeout=5", "--location", "l"
    )
    assert SECRET not in ran.out + ran.err
    written = (tmp_path / "deltasql.toml").read_text()
    assert SECRET not in written
    assert "connect_timeout=5" in written


def test_config_show_prints_no_secret(program):
    ran = program(
        "config",
        "show",
        "--url",
        f"postgresql://u:{SECRET}@h/db?oauth_client_secret={SECRET}&pass%77ord={SECRET}",
        "--location",
        f"abfss://c@a.dfs.core.windows.net/x?sig={SECRET}",
        "--set",
        f"s3.endpoint=https://u:{SECRET}@minio:9000",
        "--set",
        f"azure.sas_key={SECRET}",
    )
    assert ran.code == 0
    assert SECRET not in ran.out + ran.err
    assert "minio:9000" in ran.out + ran.err


@pytest.mark.parametrize(
    "location",
    [
        f"abfss://c@a.dfs.core.windows.net/x?sig={SECRET}",
        f"s3://b/x?X-Amz-Signature={SECRET}",
        f"gs://b/x#{SECRET}",
        f"s3://key:{SECRET}@b/x",
    ],
)
def test_a_location_is_refused_without_its_secret(program, lake, location):
    for arguments in (["adopt", location, "t"], ["--location", location, "doctor"]):
        ran = program(*arguments)
        assert ran.code
        assert "is not a location" in ran.out + ran.err
        assert SECRET not in ran.out + ran.err


def test_a_url_comes_from_a_command():
    found = resolve({"url_command": f"{sys.executable} -c 'print(\"sqlite:///lake.db\")'"})
    assert found.text("url") == "sqlite:///lake.db"
    assert found.arguments["url"] is None, "another process runs the command itself"
    assert (
        resolve({"url_command": "false", "url": "sqlite:///x.db"}).text("url") == "sqlite:///x.db"
    )


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("false", "ended with 1"),
        ("no-such-program", "No such file"),
        ("true", "one line"),
        (f"printf '{SECRET}\\n{SECRET}'", "one line"),
        ("'", "not a command line"),
        ("", "not a command line"),
    ],
)
def test_a_command_that_gives_no_url_says_why_and_not_what(command, why):
    with pytest.raises(ConfigError, match=why) as caught:
        resolve({"url_command": command}).text("url")
    assert SECRET not in caught.value.cause + caught.value.remedy


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (f"vault read --token={SECRET}", "vault ***"),
        ("/usr/bin/lake-url", "/usr/bin/lake-url"),
        (f"TOKEN={SECRET} lake-url", "*** ***"),
        (f"echo 'postgresql://u:{SECRET}@h/db", "***"),
    ],
)
def test_of_a_command_only_its_program_is_shown(program, command, shown):
    ran = program("config", "show", "--set", f"url_command={command}", "--output", "json")
    assert ran.code == 0, ran.err
    values = {row["key"]: row["value"] for row in json.loads(ran.out)}
    assert values["url_command"] == shown
    assert SECRET not in ran.out + ran.err


def test_a_command_of_a_file_that_just_lies_here_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deltasql.toml").write_text('url_command = "touch ran"\n')
    with pytest.raises(ConfigError, match="is not run") as caught:
        resolve(environment={})
    assert "DELTASQL_URL_COMMAND" in caught.value.remedy
    assert not (tmp_path / "ran").exists()
    assert resolve(file="deltasql.toml", environment={}).values["url_command"]


_KEEPER = """
import sys, time
from deltasql.spark.sessions.driver_file import DriverFile
file = DriverFile("deltasql-test")
file.write(b"first")
print(file.write(sys.argv[1].encode()), flush=True)
time.sleep(60)
"""


def test_a_driver_that_is_killed_leaves_nothing(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    keeper = subprocess.Popen(
        [sys.executable, "-c", _KEEPER, SECRET], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert keeper.stdout is not None
        path = Path(keeper.stdout.readline().strip())
        assert path.read_text() == SECRET, "other processes of this user can read it"
    finally:
        keeper.send_signal(signal.SIGKILL)
        keeper.wait()
    assert not path.exists()
    assert not list(tmp_path.iterdir())


def test_where_there_is_no_such_memory_it_is_a_file_of_ones_own(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    file = DriverFile("deltasql-test")
    path = file.write(b"first")
    assert file.write(b"second") == path
    assert path.read_bytes() == b"second"
    assert path.stat().st_mode & 0o777 == 0o600


# They run until they are told to stop, or bring a lake of their own.
_LASTING = {("serve",), ("mirror", "run"), ("demo",)}
_URL = f"postgresql://u:{SECRET}@127.0.0.1:1/db"


def _commands(found: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(found, "commands", {})
    if not below:
        yield words, found
    for name, child in below.items():
        yield from _commands(child, *words, name)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        pytest.param(words, command, id=" ".join(words))
        for words, command in _commands(typer.main.get_command(app))
        if words not in _LASTING
    ],
)
def test_a_url_in_any_place_is_not_echoed(words, command, lake, tmp_path, monkeypatch, capfd):
    """`deltasql show URL`, with the password: wherever a word can be given."""
    monkeypatch.chdir(tmp_path)
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    options = [
        item.opts[0]
        for item in command.params
        if item.param_type_name == "option" and not item.is_flag
    ]
    tries = [["t"] * len(arguments), [_URL] * len(arguments), [_URL] * (len(arguments) + 1)]
    tries += [[*["t"] * len(arguments), option, _URL] for option in options]
    for place, given in enumerate(tries):
        how = ["--output", "json", "--debug"] if place % 2 else []
        assert isinstance(run([*words, *given, *how]), int)
        told = capfd.readouterr()
        assert SECRET not in told.out + told.err, (words, given)
