"""The conformance tables, and what is known of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_BESIDE = Path(__file__).parents[3] / "shared" / "conformance"
ROOT = Path(os.environ.get("DELTASQL_CONFORMANCE", _BESIDE))
TABLES: dict[str, Any] = (
    json.loads((ROOT / "expected.json").read_text())["tables"]
    if (ROOT / "expected.json").exists()
    else {}
)
GOOD = [name for name, table in TABLES.items() if table["mark"] in ("ok", "edge")]
BAD = [name for name, table in TABLES.items() if table["mark"] not in ("ok", "edge")]
