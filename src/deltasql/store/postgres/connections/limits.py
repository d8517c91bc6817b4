"""How long anything may take: what the server is told, and when we stop waiting for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# More than a server needs to say that it gave up, and no more than half of the limit itself.
_GRACE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """What connections begin with, as libpq takes it.

    Every statement has its limit, but for streams: those take as long as there is something to
    send.
    """

    for_statements: str
    for_streams: str


class Limits:
    """`timeout` seconds for every wait, and what follows from it.

    A statement may wait for several locks, one after the other, each within its own limit: so
    the statement has one, too. The server keeps it while the statement runs and not while it
    commits: what it answers is not done.
    """

    def __init__(self, timeout: float) -> None:
        grace = min(_GRACE, timeout / 2)
        self.timeout = timeout
        self.patience = timeout + grace
        self.lock_ms = round(timeout * 1000)
        self.statement_ms = round((timeout + grace / 4) * 1000)
        locks = f"-c lock_timeout={self.lock_ms}"
        self.options = Options(f"{locks} -c statement_timeout={self.statement_ms}", locks)
        # Whoever waits gives up in time, and whoever falls silent with a lock loses it.
        always = (
            f"BEGIN; SET LOCAL lock_timeout = {self.lock_ms};"
            f" SET LOCAL idle_in_transaction_session_timeout = {self.lock_ms}"
        )
        self.begin = f"{always}; SET LOCAL statement_timeout = {self.statement_ms}"
        self.begin_long = f"{always}; SET LOCAL statement_timeout = 0"
