"""A process of its own that adopts one table and tells its time and its peak memory."""

from __future__ import annotations

import json
import sys
import time

import deltasql
from bench.peak import peak_mb


def main() -> None:
    url, log = sys.argv[1:]
    with deltasql.connect(url, location="file:///unused") as lake:
        started = time.perf_counter()
        table = lake.adopt(log, name="adopted")
        seconds = time.perf_counter() - started
        files = lake.store.totals(table.table_id, table.version).files
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), "files": files}))


if __name__ == "__main__":
    main()
