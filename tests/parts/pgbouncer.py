"""pgbouncer in transaction pooling: the proxy that forbids session state."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.parts.process import (
    LoopbackProcess,
    PartMissingError,
    apt_install,
    give_to_unprivileged,
    unprivileged,
)

# After a failed login it waits 15 seconds by default, longer than a test that cut it would.
# `auth_type = any` ignores the client's user, so every database names the one to log in as.
CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={upstream} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
server_login_retry = 1
"""


def find() -> str:
    """The program; Debian keeps it where not every PATH looks."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        raise PartMissingError("pgbouncer is not installed; run: make parts")
    return program


def ensure() -> None:
    """Install pgbouncer unless it is there."""
    try:
        find()
    except PartMissingError:
        apt_install("pgbouncer")


class PgBouncer(LoopbackProcess):
    """A pool in front of the PostgreSQL server on port `upstream`."""

    name = "pgbouncer"

    def __init__(self, directory: Path, upstream: int) -> None:
        super().__init__(directory)
        self.upstream = upstream

    def url(self, dbname: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{dbname}"

    def command(self) -> list[str]:
        give_to_unprivileged(self.directory)
        configuration = self.directory / "pgbouncer.ini"
        configuration.write_text(CONFIGURATION.format(upstream=self.upstream, port=self.port))
        return unprivileged([find(), str(configuration)])
