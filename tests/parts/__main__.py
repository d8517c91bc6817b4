"""Install the parts that pip cannot. In CI a part that cannot be had is a failure."""

import os
import sys

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

missing = 0
# dbt's test runs at full size only.
parts = [
    pgbouncer,
    oldest_postgres,
    faketime,
    toxiproxy,
    seaweedfs,
    azurite,
    spark,
    chromium,
    prometheus,
]
for part in [*parts, *([dbt] if FULL else [])]:
    name = part.__name__.rpartition(".")[2]
    try:
        part.ensure()
        print(f"{name}: {part.find()}")
    except PartMissingError as problem:
        missing += 1
        print(f"{name}: missing, its tests will be skipped. {problem}", file=sys.stderr)
sys.exit(1 if missing and os.environ.get("CI") == "true" else 0)
