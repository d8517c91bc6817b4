"""Checksum files: readers take sums, schema and protocol from them, so wrong ones are drift."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from deltasql.delta_log.names import crc_name
from tests.mirror.conftest import rows, statuses


def _sums(found: dict[str, Any]) -> None:
    found["numFiles"] += 1


def _schema(found: dict[str, Any]) -> None:
    found["metadata"]["schemaString"] = '{"type":"struct","fields":[]}'


def _protocol(found: dict[str, Any]) -> None:
    found["protocol"]["minWriterVersion"] = 2


def _time(found: dict[str, Any]) -> None:
    found["inCommitTimestampOpt"] += 1


@pytest.mark.parametrize("change", [_sums, _schema, _protocol, _time, None])
def test_a_wrong_one_is_drift_and_is_repaired(
    any_lake: Any, make_table: Any, log_of: Any, change: Callable[[Any], None] | None
) -> None:
    table = make_table(any_lake, 6, **{"delta.checkpointInterval": "4"})
    log = log_of(table)
    before = log.contents()
    for version in (5, 6):
        path = log[crc_name(version)]
        found = json.loads(path.read_text())
        if change is not None:
            change(found)
        path.write_text("[]" if change is None else json.dumps(found))
    report = table.mirror.validate()
    assert (report.ok, report.checksum_differs, report.first_drift) == (False, True, 6)
    repaired = table.mirror.repair()
    assert (repaired.ok, repaired.checksums) == (True, [5, 6])
    assert log.contents() == before
    assert table.mirror.validate().ok
    assert {record.status for record in statuses(table).values()} == {"SUCCESS"}


def test_one_that_is_gone_is_none(any_lake: Any, make_table: Any, log_of: Any) -> None:
    table = make_table(any_lake)
    log_of(table)[crc_name(3)].unlink()
    assert table.mirror.validate().ok
    assert table.mirror.repair().checksums == []


def test_sums_that_the_next_one_would_be_derived_from(
    lake: Any, make_table: Any, log_of: Any
) -> None:
    """Whoever may mirror may write what the lease knows; see tests/cli/grants."""
    table = make_table(lake)
    with lake.store.locked([]) as log:
        log.execute("UPDATE dl_mirror_leases SET total_files = 99, total_bytes = 1")
    assert table.mirror.repair().ok
    table.append(rows(7))
    found = json.loads(log_of(table)[crc_name(4)].read_text())
    assert found["numFiles"] == table.snapshot().files().num_rows
    assert table.mirror.validate().ok
