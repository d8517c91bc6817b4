"""A process of its own that validates a table's mirror and tells its time and its peak memory."""

from __future__ import annotations

import json
import sys
import time

import deltasql
from bench.peak import peak_mb


def main() -> None:
    (url,) = sys.argv[1:]
    with deltasql.connect(url, location="file:///unused") as lake:
        started = time.perf_counter()
        report = lake.table("adopted").mirror.validate()
        seconds = time.perf_counter() - started
    if not report.ok or report.reader_error:
        raise RuntimeError(f"the benchmark is wrong: {report}"[:2000])
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
