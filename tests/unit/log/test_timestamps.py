"""Times of logs that others wrote: any 64-bit number."""

from __future__ import annotations

import pytest

from deltasql.log.timestamps import EARLIEST_MS, LATEST_MS, from_ms, to_ms, written


@pytest.mark.parametrize("moment", [EARLIEST_MS, -1, 0, 1_700_000_000_000, LATEST_MS])
def test_a_time_of_the_calendar_is_itself(moment):
    assert to_ms(from_ms(moment)) == moment


@pytest.mark.parametrize("moment", [-(2**63), EARLIEST_MS - 1, LATEST_MS + 1, 2**63 - 1])
def test_beyond_the_calendar_is_its_end(moment):
    assert to_ms(from_ms(moment)) in (EARLIEST_MS, LATEST_MS)
    assert written(moment)[:4] in ("0001", "9999")
