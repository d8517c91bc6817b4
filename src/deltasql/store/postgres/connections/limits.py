"""How long anything may take: what the server is told, and when we stop waiting for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# More than a server needs to report that it gave up, but at most half of the limit itself.
_GRACE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """The settings that connections start with, as libpq takes them.

    Every statement has a limit, except for streams, which take as long as there is something to
    send.
    """

    for_statements: str
    for_streams: str


class Limits:
    """`timeout` seconds for every wait, and what follows from it.

    A statement may wait for several locks in a row, each within its own limit; so the statement has
    a limit, too. The server enforces it while the statement runs but not while it commits: a
    statement that it reports as timed out was not executed.
    """

    def __init__(self, timeout: float) -> None:
        grace = min(_GRACE, timeout / 2)
        self.timeout = timeout
        self.patience = timeout + grace
        self.lock_ms = round(timeout * 1000)
        self.statement_ms = round((timeout + grace / 4) * 1000)
        locks = f"-c lock_timeout={self.lock_ms}"
        self.options = Options(f"{locks} -c statement_timeout={self.statement_ms}", locks)
        # A transaction that waits gives up in time, and one that falls silent with a lock loses it.
        always = (
            f"BEGIN; SET LOCAL lock_timeout = {self.lock_ms};"
            f" SET LOCAL idle_in_transaction_session_timeout = {self.lock_ms}"
        )
        self.begin = f"{always}; SET LOCAL statement_timeout = {self.statement_ms}"
        self.begin_long = f"{always}; SET LOCAL statement_timeout = 0"
