"""A process of its own that iterates over a table's files and tells its peak memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench import ours


def main() -> None:
    url, location, name = sys.argv[1:]
    files = batches = 0
    with ours.connect(url, location) as lake:
        imported = peak_mb()
        for batch in lake.table(name).snapshot().file_batches():
            files += batch.num_rows
            batches += 1
    answer = {"files": files, "batches": batches, "imported_mb": imported, "peak_mb": peak_mb()}
    print(json.dumps(answer))


def peak_mb() -> float:
    """The most memory that this process ever had, in MB of a million bytes.

    Not `ru_maxrss`: after an exec that one still holds the size of the process before it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("this system does not tell a process its peak memory")


if __name__ == "__main__":
    main()
