"""Ctrl-C on a terminal, in the middle of long work on a slow object store or database.

The bar shows that the work is under way, the key is the terminal's own, and the same command
then goes on as the program said.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
import uuid
from collections.abc import Callable

import deltalake
import obstore
import pytest

import deltasql
from deltasql.store.checking.interface import Origin
from tests.cli.conftest import PROGRAM, Program, rows
from tests.parts import seaweedfs as seaweedfs_part
from tests.parts.seaweedfs import SeaweedFs
from tests.parts.toxiproxy import Proxy, Toxiproxy

pytestmark = [pytest.mark.timeout(300), pytest.mark.postgres]

CTRL_C = b"\x03"
VERSIONS = 24
INTERRUPTED = "interrupted; what was committed stays committed; "


class Terminal:
    """The program on a terminal of its own, whose keys reach it as they reach a user's."""

    def __init__(self, program: Program, *arguments: str) -> None:
        self.shown = ""
        self.pid, self._controller = pty.fork()
        if self.pid == 0:  # pragma: no cover - the program
            os.chdir(program.folder)
            environment = program.environment | {"TERM": "xterm-256color", "COLUMNS": "100"}
            os.execve(sys.executable, [*PROGRAM, *arguments], environment)

    @property
    def end(self) -> str:
        """The end of what is shown, as text."""
        return re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", self.shown)[-2000:]

    def read(self, wait: float = 0.2) -> bool:
        """Take in what is shown by now; False at the end."""
        try:
            ready, _, _ = select.select([self._controller], [], [], wait)
            piece = os.read(self._controller, 65536) if ready else b""
        except OSError:  # Linux's end of file on a terminal
            return False
        self.shown += piece.decode(errors="replace")
        return True

    def until_under_way(self, doing: str, is_halfway: Callable[[], bool]) -> None:
        """Until the bar shows a part of the work, and the work is where we want it."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self.read(), self.end
            counts = re.findall(rf"{doing}.*?(\d+)/(\d+)", self.shown)
            if counts and 0 < int(counts[-1][0]) < int(counts[-1][1]) and is_halfway():
                return
        raise AssertionError(f"no bar moved:\n{self.end}")

    def press(self, key: bytes) -> float:
        """Press a key and wait for the end; the seconds that took."""
        began = time.monotonic()
        os.write(self._controller, key)
        while self.read():
            assert time.monotonic() < began + 100, self.end
        return time.monotonic() - began

    def code(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self._controller)
        return os.waitstatus_to_exitcode(status)


class SlowLake:
    """A lake on PostgreSQL and S3, each behind a proxy that can be slowed down."""

    def __init__(
        self,
        program: Program,
        server: SeaweedFs,
        network: Toxiproxy,
        database: tuple[str, str, Proxy],
    ) -> None:
        self.program, self.server = program, server
        self.quick_url, self.url, self.sql_proxy = database
        self.s3_proxy = network.proxy(f"s3_{uuid.uuid4().hex}", server.port)
        self.prefix = f"interrupts/{uuid.uuid4().hex}"
        self.location = server.location(f"{self.prefix}/lake")
        self.use(self.location)

    def use(self, location: str) -> None:
        """What the program is told, in its file; it goes through the proxies."""
        options = self.server.options(self.s3_proxy.port).items()
        lines = [f'url = "{self.url}"', f'location = "{location}"']
        lines += [f'{key} = "{value}"' for key, value in options]
        (self.program.folder / "deltasql.toml").write_text("\n".join(lines) + "\n")

    def connect(self) -> deltasql.Lake:
        """The lake, as somebody with a quick line has it."""
        return deltasql.connect(
            self.quick_url, location=self.location, settings=self.server.options(), committer="me"
        )

    def keys(self, prefix: str) -> set[str]:
        return set(self.objects(prefix))

    def copies(self) -> dict[str, object]:
        """When each data file was copied."""
        return {key: at for key, at in self.objects("copy/").items() if key.endswith(".parquet")}

    def objects(self, prefix: str) -> dict[str, object]:
        """Keys, and when each object was written."""
        store = obstore.store.S3Store(
            seaweedfs_part.BUCKET,
            config={
                "endpoint": f"http://127.0.0.1:{self.server.port}",
                "region": "us-east-1",
                "access_key_id": seaweedfs_part.ACCESS_KEY,
                "secret_access_key": seaweedfs_part.SECRET_KEY,
            },
            client_options={"allow_http": True},
        )
        found = obstore.list(store, f"{self.prefix}/{prefix}").collect()
        return {item["path"]: item["last_modified"] for item in found}

    def run(self, *arguments: str, doing: str, is_halfway: Callable[[], bool]) -> str:
        """Interrupt a command under way; what it says at its end."""
        terminal = Terminal(self.program, *arguments)
        try:
            terminal.until_under_way(doing, is_halfway)
            seconds = terminal.press(CTRL_C)
        except BaseException:
            os.kill(terminal.pid, signal.SIGKILL)
            terminal.code()
            raise
        assert terminal.code() == 130, terminal.end
        assert "Traceback" not in terminal.shown
        assert seconds < 10, "nobody waits that long after Ctrl-C"
        told = terminal.shown.rpartition(INTERRUPTED)
        assert told[1], terminal.end
        return told[2].strip()


@pytest.fixture
def slow(program, seaweedfs, toxiproxy, postgres_server, postgres_proxy, postgres_dbname):
    url = postgres_server.url(postgres_dbname)
    deltasql.connect(url, location=str(program.folder / "unused")).close()
    slow_url = postgres_server.url(postgres_dbname, port=postgres_proxy.port)
    made = SlowLake(program, seaweedfs, toxiproxy, (url, slow_url, postgres_proxy))
    yield made
    made.s3_proxy.delete()


@pytest.fixture
def _tables(slow) -> None:
    """Two tables of many versions."""
    with slow.connect() as lake:
        for name in ("sales.orders", "sales.lines"):
            table = lake.create_table(name, rows(1).schema)
            for number in range(VERSIONS):
                table.append(rows(number))


@pytest.mark.usefixtures("_tables")
def test_validate(slow):
    before = slow.keys("lake/")
    with slow.s3_proxy.toxic("latency", latency=400):
        told = slow.run("mirror", "validate", "sales.orders", doing="validating", is_halfway=true)
    assert told.startswith("nothing was changed")
    assert slow.keys("lake/") == before
    again = slow.program("mirror", "validate", "sales.orders", "-o", "json")
    assert again.code == 0, again.err
    assert again.json[0]["ok"]


@pytest.mark.usefixtures("_tables")
def test_check(slow):
    def is_checked() -> bool:
        # A table that was checked is written down: here one of the two.
        with slow.connect() as lake:
            found = [lake.store.trusted(table.table_id) for table in lake.tables()]
        checked = [any(item.origin is Origin.CHECKED for item in known) for known in found]
        return sorted(checked) == [False, True]

    with slow.sql_proxy.toxic("latency", latency=300):
        told = slow.run("db", "check", doing="checking", is_halfway=is_checked)
    assert told.startswith("run the same command to continue with the remaining tables")
    again = slow.program("db", "check")
    assert again.code == 0, again.err
    assert sorted(re.findall(r"replayed from (\S+ \S+)", again.err)) == [
        "its first",
        f"version {VERSIONS}",
    ]


@pytest.mark.usefixtures("_tables")
def test_export(slow):
    def is_copying() -> bool:
        return 2 <= len(slow.copies()) < VERSIONS

    target = slow.server.location(f"{slow.prefix}/copy")
    command = ("mirror", "export", "sales.orders", target, "--copy-data")
    with slow.s3_proxy.toxic("latency", latency=200):
        told = slow.run(*command, doing="exporting", is_halfway=is_copying)
    assert told == "run the same command to continue where it stopped"
    copied = slow.copies()
    again = slow.program(*command, "-o", "json")
    assert again.code == 0, again.err
    assert again.json["files_copied"] == VERSIONS
    # What was copied before was not copied again.
    assert copied.items() <= slow.copies().items()
    with slow.connect() as lake:
        options = lake.reader_options
    copy = deltalake.DeltaTable(target, storage_options=options)
    assert copy.version() == VERSIONS
    assert copy.to_pyarrow_table().num_rows == VERSIONS


@pytest.mark.usefixtures("_tables")
def test_recover(slow, postgres_server, postgres_proxy):
    name = f"again_{uuid.uuid4().hex}"
    postgres_server.create_database(name)
    slow.url = postgres_server.url(name, port=postgres_proxy.port)
    slow.quick_url = postgres_server.url(name)
    slow.use(slow.location)
    deltasql.connect(slow.quick_url, location=str(slow.program.folder / "unused")).close()

    def is_halfway() -> bool:
        with slow.connect() as lake:
            return len(lake.tables()) == 1

    try:
        with slow.s3_proxy.toxic("latency", latency=200):
            told = slow.run(
                "recover", "--parallelism", "1", doing="recovering tables", is_halfway=is_halfway
            )
        assert told == "run the same command to adopt the remaining tables"
        again = slow.program("recover", "-o", "json")
        assert again.code == 0, again.err
        assert sorted(item["status"] for item in again.json) == ["adopted", "present"]
        with slow.connect() as lake:
            for table in lake.tables():
                assert table.count() == VERSIONS
                table.append(rows(-1))
    finally:
        postgres_server.drop_database(name)


def true() -> bool:
    return True
