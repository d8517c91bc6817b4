"""Upkeep in a process of its own, as a worker does it: `with Beside(url, location, "compact"): …`

`python -m bench.beside URL LOCATION WORK` does it until its standard input ends, and says then how
often it did. `compact` compacts one table over and over, `upkeep` does what is due every second.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from types import TracebackType

import deltasql
from deltasql.lake.upkeep.background import give_way, upkeep_beside

TABLE = "bench.t"
_AUTO = {"maintenance.auto": "on", "maintenance.interval": "1s"}


class Beside:
    """A block beside which a process keeps up a lake; `done` says how often, once it has ended."""

    def __init__(self, url: str, location: str, work: str) -> None:
        self._command = [sys.executable, "-m", "bench.beside", url, location, work]
        self.done = 0

    def __enter__(self) -> Beside:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "begun\n":
            raise RuntimeError("upkeep did not begin")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        told, _ = self._process.communicate(timeout=120)
        if kind is None:
            self.done = int(told)


def _compact(lake: deltasql.Lake, stopped: threading.Event) -> int:
    table, done = lake.table(TABLE), 0
    give_way()
    while not stopped.is_set():
        done += len(table.optimize().versions)
    return done


def _keep_up(lake: deltasql.Lake, stopped: threading.Event) -> int:
    with upkeep_beside(lake, stopped):
        stopped.wait()
    return len(lake.maintenance.queue())


def main(url: str, location: str, work: str) -> int:
    stopped = threading.Event()
    with deltasql.connect(url, location=location, settings=_AUTO) as lake:
        lake.table(TABLE).optimize()
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
        done = (_compact if work == "compact" else _keep_up)(lake, stopped)
        sys.stdout.write(f"{done}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
