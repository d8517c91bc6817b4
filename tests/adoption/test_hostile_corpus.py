"""Made-up logs, thousands of them: a typed error or a right table, and nothing left behind.

Each begins as a sound log (the forms of this repository, and the conformance tables where they
are) and is broken by a grammar of what JSON, Delta's actions and the names of a log allow.
"""

from __future__ import annotations

import json
import os
import random
import resource
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltasql
from tests.adoption.forms import FORMS
from tests.conformance import tables as conformance
from tests.sizes import FULL

LOGS = 2_000 if FULL else 75
# The full run looks for new ones; DELTASQL_CORPUS=… makes those of a run that failed again.
SEED = os.environ.get("DELTASQL_CORPUS") or (secrets.token_hex(4) if FULL else "22")
MOST_MEMORY = 500 * 1024  # kilobytes, as getrusage counts
MOST_SECONDS = 5
LARGEST_SEED = 200_000
NUMBERS = (0, -1, 2**31, 2**63 - 1, 2**63, 2**70, 1e308, -0.0, 1.5, 253402300800000)
TEXTS = (
    "",
    " ",
    "\0",
    "\\",
    "../../etc/passwd",
    "a/../../b",
    "%2e%2e/x",
    "/etc/passwd",
    "file:///etc/passwd",
    "FILE:/etc/passwd",
    "s3://other/bucket",
    "x" * 70_000,
    "\u202e\u0000",
    "ß" * 300,
    "null",
    "{}",
    '{"type":"struct","fields":[]}',
    "'; DROP TABLE dl_tables; --",
)
KEYS = ("add", "remove", "metaData", "protocol", "txn", "cdc", "commitInfo", "sidecar", "path",
        "size", "stats", "deletionVector", "schemaString", "new key")  # fmt: skip
Log = dict[str, bytes]


def _seeds(tmp_path: Path) -> list[Log]:
    roots = []
    for number, make in enumerate(FORMS.values()):
        root = tmp_path / "seeds" / str(number) / "table"
        root.parent.mkdir(parents=True)
        make(root)
        roots.append(root)
    roots += [
        found.parent
        for name in sorted(conformance.TABLES)
        for found in sorted((conformance.ROOT / name).rglob("_delta_log"))[:1]
    ]
    logs = []
    for root in roots:
        files = [path for path in (root / "_delta_log").rglob("*") if path.is_file()]
        if 0 < sum(path.stat().st_size for path in files) < LARGEST_SEED:
            log = root / "_delta_log"
            logs.append({str(path.relative_to(log)): path.read_bytes() for path in sorted(files)})
    return logs


# --- the grammar --------------------------------------------------------------------------


def _value(chance: random.Random) -> Any:
    deep: Any = "x"
    for _ in range(chance.choice((3, 150, 250, 900))):
        deep = [deep] if chance.random() < 0.5 else {"k": deep}
    return chance.choice((*NUMBERS, *TEXTS, None, True, [], {}, [1, "a"], {"a": {"b": []}}, deep))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a value."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        found.append((value, key))
        if isinstance(item, dict | list):
            found += _places(item)
    return found


def _in_an_action(body: bytes, chance: random.Random) -> bytes:
    lines = body.splitlines()
    at = chance.randrange(len(lines))
    try:
        action = json.loads(lines[at])
    except ValueError:
        return body
    # A fault before this one may have made it anything.
    places = _places(action) if isinstance(action, dict | list) else []
    if not places:
        return body
    container, key = chance.choice(places)
    kind = chance.randrange(5)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[chance.choice(KEYS)] = container.pop(key)
    elif kind == 2 and isinstance(container, dict):
        container[chance.choice(KEYS)] = _value(chance)
    else:
        container[key] = _value(chance)
    lines[at] = json.dumps(action).encode()
    return b"\n".join(lines)


def _in_lines(body: bytes, chance: random.Random) -> bytes:
    lines = body.splitlines()
    kind = chance.randrange(6)
    at = chance.randrange(len(lines))
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.append(lines[at])
    elif kind == 2:
        chance.shuffle(lines)
    elif kind == 3:
        lines[at] = lines[at].replace(b'":', b'":1,"x":', 1)
    elif kind == 4:
        lines[at] = lines[at].replace(b'"', b'"\\ud800', 1 + 2 * chance.randrange(3))
    else:
        lines.insert(at, chance.choice((b"[]", b"1", b"null", b"{", b"NaN", b'{"add":1e999}')))
    return b"\n".join(lines)


def _in_bytes(body: bytes, chance: random.Random) -> bytes:
    kind, at = chance.randrange(4), chance.randrange(len(body))
    if kind == 0:
        return body[:at]
    if kind == 1:
        return body[:at] + bytes([body[at] ^ (1 << chance.randrange(8))]) + body[at + 1 :]
    if kind == 2:
        return body[:at] + chance.randbytes(chance.randrange(40)) + body[at:]
    return chance.choice((b"", b"\xef\xbb\xbf" + body, body.replace(b"\n", b"\r\n"), body * 2))


def _in_names(log: Log, chance: random.Random) -> Log:
    name = chance.choice(sorted(log))
    changed = dict(log)
    kind = chance.randrange(4)
    if kind == 0:
        del changed[name]
    elif kind == 1:
        changed[f"{chance.choice((7, 2**62, 2**64, 10**19)):020}.json"] = changed[name]
    elif kind == 2:
        version = chance.randrange(4)
        changed[f"{version:020}.checkpoint.parquet"] = chance.randbytes(200) + b"PAR1"
    else:
        changed["_last_checkpoint"] = chance.choice((b"", b"{}", b'{"version":1e99}', b"[" * 900))
    return changed


def broken(log: Log, chance: random.Random) -> Log:
    """A log with one to three faults, and now and then none."""
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        if not log or chance.random() < 0.15:
            log = _in_names(log, chance) if log else log
            continue
        name = chance.choice(sorted(log))
        body = log[name]
        if not body:
            continue
        by_text: tuple[Callable[[bytes, random.Random], bytes], ...] = (
            _in_action_or_bytes,
            _in_lines,
            _in_bytes,
        )
        change = chance.choice(by_text) if name.endswith(".json") else _in_bytes
        log = {**log, name: change(body, chance)}
    return log


def _in_action_or_bytes(body: bytes, chance: random.Random) -> bytes:
    return _in_an_action(body, chance) if body.splitlines() else body


# --- what must hold -----------------------------------------------------------------------


ROWS = """
SELECT (SELECT count(*) FROM dl_tables) + (SELECT count(*) FROM dl_table_versions)
     + (SELECT count(*) FROM dl_active_files) + (SELECT count(*) FROM dl_dead_files)
     + (SELECT count(*) FROM dl_places) + (SELECT count(*) FROM dl_partitions)
     + (SELECT count(*) FROM dl_table_sources) + (SELECT count(*) FROM dl_metadata_updates)
"""


def _rows(lake: deltasql.Lake) -> int:
    with lake.store.locked([]) as log:
        return int(log.execute(ROWS)[0][0])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "store_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_each_is_told_or_right(any_lake: Any, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"DELTASQL_CORPUS={SEED}")
    seeds = _seeds(tmp_path)
    outcomes: dict[str, int] = {}
    before, memory = _rows(any_lake), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(LOGS):
        root = tmp_path / "made" / f"t{number}"
        for name, body in broken(chance.choice(seeds), chance).items():
            path = root / "_delta_log" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        if not root.exists():
            continue
        started = time.monotonic()
        outcome = _adopted(any_lake, root, number)
        if FULL:
            assert time.monotonic() - started < MOST_SECONDS, number
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        assert any_lake.store.staged_tables() == [], number
        assert _rows(any_lake) == before, (number, outcome)
        shutil.rmtree(root, ignore_errors=True)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert grown < MOST_MEMORY, outcomes
    assert {"adopted", "LogFormatError"} <= outcomes.keys(), outcomes


def _adopted(lake: deltasql.Lake, root: Path, number: int) -> str:
    """Adopt a log, dry and for real; both say the same, and what is adopted is purged again."""
    # Any other error, a raw one, fails the test by itself.
    try:
        report: Any = lake.adopt(str(root), "t", dry_run=True)
    except deltasql.DeltaSqlError as error:
        report = error
    validate = number % 10 == 0
    try:
        table: Any = lake.adopt(str(root), "t", fence=False, validate=validate)
    except deltasql.DeltaSqlError as error:
        table = error
    if isinstance(table, deltasql.DeltaSqlError):
        # Only the other reader may find a fault that a dry run did not.
        assert validate or type(report) is type(table), (number, report, table)
        return type(table).__name__
    assert not isinstance(report, deltasql.DeltaSqlError), (number, report)
    files = table.snapshot(version=table.version).files()
    assert (table.version, files.num_rows) == (report.version, report.files), number
    lake.drop_table("t", purge=True)
    return "adopted"
