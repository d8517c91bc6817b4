"""Install the parts that pip cannot. In CI a part that cannot be had is a failure."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

from tests.parts import (
    azurite,
    chromium,
    dbt,
    faketime,
    oldest_postgres,
    pgbouncer,
    prometheus,
    seaweedfs,
    spark,
    toxiproxy,
)
from tests.parts.process import PartMissingError
from tests.sizes import FULL

# The longest first: two at a time, since most of it is waiting for a network. dbt's test runs at
# full size only.
parts = [
    spark,
    azurite,
    oldest_postgres,
    toxiproxy,
    pgbouncer,
    faketime,
    seaweedfs,
    chromium,
    prometheus,
    *([dbt] if FULL else []),
]


def ensured(part: ModuleType) -> PartMissingError | None:
    """Install a part unless it is there; why it can't be."""
    try:
        part.ensure()
    except PartMissingError as problem:
        return problem
    return None


missing = 0
with ThreadPoolExecutor(2) as pool:
    for part, problem in zip(parts, pool.map(ensured, parts), strict=True):
        name = part.__name__.rpartition(".")[2]
        if problem is None:
            print(f"{name}: {part.find()}")
        else:
            missing += 1
            print(f"{name}: missing, its tests will be skipped. {problem}", file=sys.stderr)
sys.exit(1 if missing and os.environ.get("CI") == "true" else 0)
