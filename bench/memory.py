"""A process of its own that iterates over a table's files and tells its peak memory."""

from __future__ import annotations

import json
import sys

from bench import ours
from bench.peak import peak_mb


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


if __name__ == "__main__":
    main()
