"""The conformance tables: written by Spark, Databricks, Trino and delta-rs, with what is in them.

They lie beside a checkout and not in it. A clone without them has the same forms, made by
tests/adoption/forms, and the tests of these say in one line what they need. In CI that would be a
failure, like every skip.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).parents[3] / "shared" / "conformance"
ROOT = Path(os.environ.get("DELTASQL_CONFORMANCE", _BESIDE))
_EXPECTED = ROOT / "expected.json"
TABLES: dict[str, Any] = (
    json.loads(_EXPECTED.read_text("utf-8"))["tables"] if _EXPECTED.exists() else {}
)
GOOD = [name for name, table in TABLES.items() if table["mark"] in ("ok", "edge")]
BAD = [name for name, table in TABLES.items() if table["mark"] not in ("ok", "edge")]
MISSING = f"needs the conformance tables in {ROOT}, or where DELTASQL_CONFORMANCE says"
needed = pytest.mark.skipif(not TABLES, reason=MISSING)
