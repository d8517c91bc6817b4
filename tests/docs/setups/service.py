"""A service for the page, on a free port; it ends with the process that runs the page."""

import atexit
import subprocess
import sys

import pyarrow as pa

import deltasql

subprocess.run(
    ["deltasql", "init", "sqlite:///lake.db", "--location", "./lake"],
    check=True,
    capture_output=True,
)
with deltasql.connect() as _lake:
    _table = _lake.create_table("sales.orders", pa.schema([("id", pa.int64())]))
    _table.append(pa.table({"id": [1]}))
    _table.append(pa.table({"id": [2]}))

_service = subprocess.Popen(
    [sys.executable, "-m", "deltasql.cli", "serve", "--port", "0"],
    stderr=subprocess.PIPE,
    text=True,
)


def _stop():
    _service.terminate()
    _service.communicate(timeout=30)


atexit.register(_stop)
_address = next(
    line.removeprefix("serving at ").strip()
    for line in _service.stderr
    if line.startswith("serving at ")
)
PLACES = {"http://127.0.0.1:8080": _address}
