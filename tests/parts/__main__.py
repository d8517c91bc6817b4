"""Install the parts that pip cannot. In CI a part that cannot be had is a failure."""

import os
import sys

from tests.parts import azurite, dbt, faketime, pgbouncer, seaweedfs, spark, toxiproxy
from tests.parts.process import PartMissingError
from tests.sizes import FULL

missing = 0
# dbt's test runs at full size only.
parts = [pgbouncer, faketime, toxiproxy, seaweedfs, azurite, spark, *([dbt] if FULL else [])]
for part in parts:
    name = part.__name__.rpartition(".")[2]
    try:
        part.ensure()
        print(f"{name}: {part.find()}")
    except PartMissingError as problem:
        missing += 1
        print(f"{name}: missing, its tests will be skipped. {problem}", file=sys.stderr)
sys.exit(1 if missing and os.environ.get("CI") == "true" else 0)
